// Reads CSV traces. A format is a list of columns with their meaning.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "traces/trace_reader.h"

namespace twin {

enum class ColumnMeaning : std::uint8_t {
  kArrivalSeconds,     // since the start of the trace
  kArrivalMs,          // since the start of the trace
  kArrivalUs,          // since the start of the trace
  kArrivalNs,          // since the start of the trace
  kTimestamp,          // date and time; the trace starts at the first row's
  kPromptTokens,       //
  kOutputTokens,       //
  kMaxOutputTokens,    // empty = the output length
  kPredictedTokens,    // empty = none
  kPriority,           // empty = 0
  kTenant,             // empty = 0
  kTenantName,         // text; tenants are numbered in the order in which they appear
  kStatus,             // words.h: success or a failed request; empty counts as failed if other
                       // rows have a status
  kError,              // words.h: a failed request if it names an error
  kSession,            // empty = 0
  kSessionName,        // text that names a conversation; of several such columns the layout's first
  kPrefixChunkTokens,  // empty = 0
  kPrefixChunks,       // separated by ;
  kGroup,              // text that a filter can name; arrivals may restart where it changes
  kLabel,              // text that a filter can name
  kUnused,             // a note names it
  kDerived,            // follows from other columns
};

struct CsvColumn {
  std::string_view name;
  ColumnMeaning meaning;
  bool required = true;
};

// One set of columns that files of a format may have, in any order.
struct CsvLayout {
  std::span<const CsvColumn> columns;
  // True: a row with 0 output tokens is a failed request, see TraceReadOptions::failed_rows.
  // False: such a row is an error.
  bool zero_output_is_failure = false;
  // True: rows come in any order and time zero is the earliest row's; the file is read whole.
  bool sorts = false;
  // True: files may have more columns, which a note names.
  bool ignores_others = false;
};

// The layout that matches this header line, or nullptr. A header matches if it has all required
// columns of the layout, no duplicate, and no unknown column, unless the layout ignores unknown
// ones.
const CsvLayout* MatchCsvHeader(std::span<const CsvLayout> layouts, std::string_view header);

// The largest number of the header's columns that any one layout knows.
std::size_t KnownCsvColumns(std::span<const CsvLayout> layouts, std::string_view header);

// Opens a reader for the file whose header is the next line of `lines`. `layouts` must outlive the
// reader. Throws InputError if no layout matches; the message compares with the nearest layout.
std::unique_ptr<TraceReader> OpenCsvTrace(std::unique_ptr<LineReader> lines,
                                          std::span<const CsvLayout> layouts,
                                          const TraceReadOptions& options);

}  // namespace twin
