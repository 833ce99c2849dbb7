// Reads traces of JSON lines. A format is a list of layouts, which are lists of keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "traces/trace_reader.h"

namespace twin {

// The keys of the lines of a file. An empty name means that the format has no such key.
struct JsonlLayout {
  std::string_view arrival_key = {};
  double arrival_unit_seconds = 1;  // unit of the arrival, in seconds
  std::string_view prompt_key = {};
  std::string_view output_key = {};
  // A conversation: the request's name, and that of the request whose answer it follows, -1 if
  // none. The latter is required, and tells the format from similar ones. Formats without these
  // keys may name the conversation (kSessionNames).
  std::string_view name_key = {};
  std::string_view before_key = {};

  // Keys of the content, which is optional in each line; absent = unknown. It is given either as
  // ids of chunks, or as the tokens of the prompt and the output. Each whole chunk of tokens is
  // then named by a hash of its tokens and of all tokens before it.
  std::int32_t prefix_chunk_tokens = 0;
  std::string_view chunks_key = {};
  std::string_view prompt_ids_key = {};
  std::string_view output_ids_key = {};

  // A session: a line with an array of requests, each of which follows the answer to the one
  // before. They have the keys above except the arrival. After a request, the client pauses.
  std::string_view turns_key = {};
  std::string_view pause_ns_key = {};  // optional
  std::string_view refused_key = {};   // lines with this key are refused
  bool sorts = false;                  // lines come in any order; the file is read whole
};

// The layout of a file whose first line is this JSON object: it has the required keys. nullptr if
// no layout matches.
const JsonlLayout* MatchJsonl(std::span<const JsonlLayout> layouts, std::string_view line);

// The largest number of a layout's keys that occur in the line, in quotes.
std::size_t KnownJsonlKeys(std::span<const JsonlLayout> layouts, std::string_view line);

// Opens a reader of `lines`. A note names unknown keys. `layouts` must outlive the reader; if none
// matches the first line, the first one explains why.
std::unique_ptr<TraceReader> OpenJsonlTrace(std::unique_ptr<LineReader> lines,
                                            std::span<const JsonlLayout> layouts,
                                            const TraceReadOptions& options);

}  // namespace twin
