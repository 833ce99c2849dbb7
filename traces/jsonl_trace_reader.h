// Reads traces of JSON lines. A format is a list of keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "traces/trace_reader.h"

namespace twin {

struct JsonlLayout {
  std::string_view arrival_key;
  double arrival_unit_seconds = 1;  // unit of the arrival, in seconds
  std::string_view prompt_key;
  std::string_view output_key;
  std::string_view chunks_key;  // optional in each line; absent = content unknown
  std::int32_t prefix_chunk_tokens = 0;
};

// True if the line is a JSON object with the layout's required keys.
bool MatchJsonl(const JsonlLayout& layout, std::string_view line);

// The number of the layout's keys that occur in the line, in quotes.
std::size_t KnownJsonlKeys(const JsonlLayout& layout, std::string_view line);

// Opens a reader of `lines`. Unknown keys are ignored. `layout` must outlive the reader.
std::unique_ptr<TraceReader> OpenJsonlTrace(std::unique_ptr<LineReader> lines,
                                            const JsonlLayout& layout,
                                            const TraceReadOptions& options);

}  // namespace twin
