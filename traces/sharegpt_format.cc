#include "traces/sharegpt_format.h"

#include "traces/csv_trace_reader.h"

namespace twin {
namespace {

constexpr CsvColumn kLengths[] = {
    {"prompt_tokens", ColumnMeaning::kPromptTokens},
    {"output_tokens", ColumnMeaning::kOutputTokens},
};
constexpr CsvColumn kShort[] = {
    {"input_len", ColumnMeaning::kPromptTokens},
    {"output_len", ColumnMeaning::kOutputTokens},
};
constexpr CsvLayout kLayouts[] = {
    {kLengths},
    {kShort},
};

}  // namespace

const TraceFormat& ShareGptFormat() {
  static const TraceFormat format = CsvFormat(
      "sharegpt", "ShareGPT-style lengths: prompt_tokens,output_tokens or input_len,output_len",
      kLayouts);
  return format;
}

}  // namespace twin
