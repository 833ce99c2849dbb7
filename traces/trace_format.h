// The formats of trace files, and the choice of a reader for a file.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "traces/trace_reader.h"

namespace twin {

struct TraceFormat {
  std::string name;
  std::string description;
  // True if a file with this first line has the format.
  std::function<bool(std::string_view first_line)> recognises;
  // The number of columns or keys of the first line that the format knows. Error messages name the
  // format with the largest number.
  std::function<std::size_t(std::string_view first_line)> resemblance;
  std::function<std::unique_ptr<TraceReader>(std::unique_ptr<LineReader>, const TraceReadOptions&)>
      open;
  bool measured = false;  // ReadBenchmarkRuns reads the same files, with the times in them
};

// All formats (formats.cc). The first one that recognises a file is used.
const std::vector<TraceFormat>& TraceFormats();

// Opens a reader of the named format; with an empty name, the first line determines the format.
// Throws InputError.
std::unique_ptr<TraceReader> OpenTrace(const std::string& path, std::string_view format_name = "",
                                       const TraceReadOptions& options = {});
std::unique_ptr<TraceReader> OpenTrace(std::unique_ptr<LineReader> lines,
                                       std::string_view format_name,
                                       const TraceReadOptions& options);

}  // namespace twin
