// JSON-lines traces of any format: a format is a list of keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "traces/trace_reader.h"

namespace twin {

struct JsonlLayout {
  std::string_view arrival_key;
  double arrival_unit_seconds = 1;  // a number of these
  std::string_view prompt_key;
  std::string_view output_key;
  std::string_view chunks_key;  // may be missing in a line: content unknown
  std::int32_t prefix_chunk_tokens = 0;
};

// True if the line is a JSON object that has the layout's required keys.
bool MatchJsonl(const JsonlLayout& layout, std::string_view line);

// How many of the layout's keys occur, quoted, in the line.
std::size_t KnownJsonlKeys(const JsonlLayout& layout, std::string_view line);

// A reader of `lines`; other keys are read over. `layout` must outlive it.
std::unique_ptr<TraceReader> OpenJsonlTrace(std::unique_ptr<LineReader> lines,
                                            const JsonlLayout& layout,
                                            const TraceReadOptions& options);

}  // namespace twin
