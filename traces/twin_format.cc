#include "traces/twin_format.h"

#include "traces/csv_trace_reader.h"

namespace twin {
namespace {

constexpr CsvColumn kTwinNanoseconds[] = {
    {"arrival_ns", ColumnMeaning::kArrivalNs},
    {"prompt_tokens", ColumnMeaning::kPromptTokens},
    {"output_tokens", ColumnMeaning::kOutputTokens},
    {"max_output_tokens", ColumnMeaning::kMaxOutputTokens, false},
    {"predicted_output_tokens", ColumnMeaning::kPredictedTokens, false},
    {"priority", ColumnMeaning::kPriority, false},
    {"tenant", ColumnMeaning::kTenant, false},
    {"session", ColumnMeaning::kSession, false},
    {"prefix_chunk_tokens", ColumnMeaning::kPrefixChunkTokens, false},
    {"prefix_chunks", ColumnMeaning::kPrefixChunks, false},
};
constexpr CsvColumn kTwinSeconds[] = {
    {"arrival_s", ColumnMeaning::kArrivalSeconds},
    {"prompt_tokens", ColumnMeaning::kPromptTokens},
    {"output_tokens", ColumnMeaning::kOutputTokens},
    {"max_output_tokens", ColumnMeaning::kMaxOutputTokens, false},
    {"predicted_output_tokens", ColumnMeaning::kPredictedTokens, false},
    {"priority", ColumnMeaning::kPriority, false},
    {"tenant", ColumnMeaning::kTenant, false},
    {"session", ColumnMeaning::kSession, false},
    {"prefix_chunk_tokens", ColumnMeaning::kPrefixChunkTokens, false},
    {"prefix_chunks", ColumnMeaning::kPrefixChunks, false},
};
constexpr CsvColumn kTwinLengths[] = {
    {"prompt_tokens", ColumnMeaning::kPromptTokens},
    {"output_tokens", ColumnMeaning::kOutputTokens},
    {"max_output_tokens", ColumnMeaning::kMaxOutputTokens, false},
    {"predicted_output_tokens", ColumnMeaning::kPredictedTokens, false},
    {"priority", ColumnMeaning::kPriority, false},
    {"tenant", ColumnMeaning::kTenant, false},
    {"session", ColumnMeaning::kSession, false},
    {"prefix_chunk_tokens", ColumnMeaning::kPrefixChunkTokens, false},
    {"prefix_chunks", ColumnMeaning::kPrefixChunks, false},
};
constexpr CsvLayout kTwinLayouts[] = {
    {kTwinNanoseconds},
    {kTwinSeconds},
    {kTwinLengths},
};

}  // namespace

const TraceFormat& TwinFormat() {
  static const TraceFormat format = CsvFormat(
      "twin", "twinserve: arrival_ns or arrival_s,prompt_tokens,output_tokens and optional columns",
      kTwinLayouts);
  return format;
}

}  // namespace twin
