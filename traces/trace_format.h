// The formats of trace files, and how a file finds its reader.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "traces/csv_trace_reader.h"
#include "traces/jsonl_trace_reader.h"
#include "traces/trace_reader.h"

namespace twin {

struct TraceFormat {
  std::string name;
  std::string description;
  // Whether a file that begins with this line is of the format.
  std::function<bool(std::string_view first_line)> recognises;
  // How many named parts of the first line the format knows: the nearest one words the refusal.
  std::function<std::size_t(std::string_view first_line)> resemblance;
  std::function<std::unique_ptr<TraceReader>(std::unique_ptr<LineReader>, const TraceReadOptions&)>
      open;
};

// Formats made of layouts, which must outlive them.
TraceFormat CsvFormat(std::string name, std::string description,
                      std::span<const CsvLayout> layouts);
TraceFormat JsonlFormat(std::string name, std::string description, const JsonlLayout& layout);

// All formats. The first that recognises a file takes it.
const std::vector<const TraceFormat*>& TraceFormats();

// A reader of the file in the named format, or in the one that its first line shows if the name is
// empty. Throws InputError.
std::unique_ptr<TraceReader> OpenTrace(const std::string& path, std::string_view format_name = "",
                                       const TraceReadOptions& options = {});
std::unique_ptr<TraceReader> OpenTrace(std::unique_ptr<LineReader> lines,
                                       std::string_view format_name,
                                       const TraceReadOptions& options);

}  // namespace twin
