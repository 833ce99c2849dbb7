// Reads traces of JSON lines. A format is a list of layouts, which are lists of keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "traces/trace_reader.h"

namespace twin {

// The keys of the lines of a file. An empty name: the format has no such key.
struct JsonlLayout {
  std::string_view arrival_key = {};
  double arrival_unit_seconds = 1;  // unit of the arrival, in seconds
  std::string_view prompt_key = {};
  std::string_view output_key = {};
  std::string_view mark_key = {};  // required, so that the format is told from others; not read

  // The content, optional in each line; absent = unknown. Either ids of chunks, or the tokens of
  // the prompt and the output, of which whole chunks are named by what they and all before hold.
  std::int32_t prefix_chunk_tokens = 0;
  std::string_view chunks_key = {};
  std::string_view prompt_ids_key = {};
  std::string_view output_ids_key = {};

  // A line may hold, instead of one request, an array of them, each with the keys above but the
  // arrival, that follow each other's answers: a session. After a request, the client pauses.
  std::string_view turns_key = {};
  std::string_view pause_ns_key = {};  // optional
  std::string_view refused_key = {};   // a line with it is of a kind that is not read
  bool sorts = false;                  // lines come in any order; the file is read whole
};

// The layout of a file whose first line is this JSON object: it has the required keys. nullptr if
// no layout matches.
const JsonlLayout* MatchJsonl(std::span<const JsonlLayout> layouts, std::string_view line);

// The largest number of a layout's keys that occur in the line, in quotes.
std::size_t KnownJsonlKeys(std::span<const JsonlLayout> layouts, std::string_view line);

// Opens a reader of `lines`. Unknown keys are ignored. `layouts` must outlive the reader; if none
// matches the first line, the first one explains why.
std::unique_ptr<TraceReader> OpenJsonlTrace(std::unique_ptr<LineReader> lines,
                                            std::span<const JsonlLayout> layouts,
                                            const TraceReadOptions& options);

}  // namespace twin
