#include "traces/sharegpt_format.h"

#include "traces/csv_trace_reader.h"

namespace twin {
namespace {

constexpr CsvColumn kShareGptLengths[] = {
    {"prompt_tokens", ColumnMeaning::kPromptTokens},
    {"output_tokens", ColumnMeaning::kOutputTokens},
};
constexpr CsvColumn kShareGptShort[] = {
    {"input_len", ColumnMeaning::kPromptTokens},
    {"output_len", ColumnMeaning::kOutputTokens},
};
constexpr CsvLayout kShareGptLayouts[] = {
    {kShareGptLengths},
    {kShareGptShort},
};

}  // namespace

const TraceFormat& ShareGptFormat() {
  static const TraceFormat format = CsvFormat(
      "sharegpt", "ShareGPT-style lengths: prompt_tokens,output_tokens or input_len,output_len",
      kShareGptLayouts);
  return format;
}

}  // namespace twin
