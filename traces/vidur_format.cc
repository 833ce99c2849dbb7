#include "traces/vidur_format.h"

#include "traces/csv_trace_reader.h"

namespace twin {
namespace {

constexpr CsvColumn kVidurArrivals[] = {
    {"arrived_at", ColumnMeaning::kArrivalSeconds},
    {"num_prefill_tokens", ColumnMeaning::kPromptTokens},
    {"num_decode_tokens", ColumnMeaning::kOutputTokens},
    {"num_total_tokens", ColumnMeaning::kUnused, false},
    {"pd_ratio", ColumnMeaning::kUnused, false},
};
constexpr CsvColumn kVidurLengths[] = {
    {"num_prefill_tokens", ColumnMeaning::kPromptTokens},
    {"num_decode_tokens", ColumnMeaning::kOutputTokens},
    {"num_total_tokens", ColumnMeaning::kUnused, false},
    {"pd_ratio", ColumnMeaning::kUnused, false},
};
constexpr CsvColumn kVidurPlainLengths[] = {
    {"prompt_tokens", ColumnMeaning::kPromptTokens},
    {"output_tokens", ColumnMeaning::kOutputTokens},
};
constexpr CsvLayout kVidurLayouts[] = {
    {kVidurArrivals},
    {kVidurLengths},
    {kVidurPlainLengths},
};

}  // namespace

const TraceFormat& VidurFormat() {
  static const TraceFormat format =
      CsvFormat("vidur", "Vidur: [arrived_at,]num_prefill_tokens,num_decode_tokens", kVidurLayouts);
  return format;
}

}  // namespace twin
