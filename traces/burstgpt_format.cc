#include "traces/burstgpt_format.h"

#include "traces/csv_trace_reader.h"

namespace twin {
namespace {

constexpr CsvColumn kBurstGptColumns[] = {
    {"Timestamp", ColumnMeaning::kArrivalSeconds},
    {"Session ID", ColumnMeaning::kUnused, false},
    {"Elapsed time", ColumnMeaning::kUnused, false},
    {"Model", ColumnMeaning::kLabel},
    {"Request tokens", ColumnMeaning::kPromptTokens},
    {"Response tokens", ColumnMeaning::kOutputTokens},
    {"Total tokens", ColumnMeaning::kUnused},
    {"Log Type", ColumnMeaning::kLabel},
};
constexpr CsvLayout kBurstGptLayouts[] = {
    {kBurstGptColumns, /*zero_output_is_failure=*/true},
};

}  // namespace

const TraceFormat& BurstGptFormat() {
  static const TraceFormat format = CsvFormat(
      "burstgpt", "BurstGPT: Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
      kBurstGptLayouts);
  return format;
}

}  // namespace twin
