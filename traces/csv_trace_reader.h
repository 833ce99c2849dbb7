// CSV traces of any format: a format is a list of columns and what each of them means.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "traces/trace_reader.h"

namespace twin {

enum class ColumnMeaning : std::uint8_t {
  kArrivalSeconds,     // since the start of the trace
  kArrivalNs,          // since the start of the trace
  kTimestamp,          // date and time; the first row's is the start of the trace
  kPromptTokens,       //
  kOutputTokens,       //
  kMaxOutputTokens,    // empty = the output length
  kPredictedTokens,    // empty = none
  kPriority,           // empty = 0
  kTenant,             // empty = 0
  kSession,            // empty = 0
  kPrefixChunkTokens,  // empty = 0
  kPrefixChunks,       // separated by ;
  kGroup,              // text that a filter can name; arrivals may restart where it changes
  kLabel,              // text that a filter can name
  kUnused,             // read over
};

struct CsvColumn {
  std::string_view name;
  ColumnMeaning meaning;
  bool required = true;
};

// One shape that a format's files have; columns come in any order.
struct CsvLayout {
  std::span<const CsvColumn> columns;
  // 0 output tokens are a failed request, dealt with as TraceReadOptions says; else refused.
  bool zero_output_is_failure = false;
};

// The layout that this header line fits, or nullptr. A header fits if it has all required columns,
// no column twice and none that the layout does not know.
const CsvLayout* MatchCsvHeader(std::span<const CsvLayout> layouts, std::string_view header);

// How many of the header's columns the layouts know at best.
std::size_t KnownCsvColumns(std::span<const CsvLayout> layouts, std::string_view header);

// A reader of the file whose first line is the next of `lines`. `layouts` must outlive it. Throws
// InputError if no layout fits, saying what the nearest one lacks.
std::unique_ptr<TraceReader> OpenCsvTrace(std::unique_ptr<LineReader> lines,
                                          std::span<const CsvLayout> layouts,
                                          const TraceReadOptions& options);

}  // namespace twin
