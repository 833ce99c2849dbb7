#include "traces/azure_format.h"

#include "traces/csv_trace_reader.h"

namespace twin {
namespace {

constexpr CsvColumn kAzureOriginal[] = {
    {"TIMESTAMP", ColumnMeaning::kTimestamp},
    {"NumImages", ColumnMeaning::kUnused, false},  // of 2025's multimodal trace
    {"ContextTokens", ColumnMeaning::kPromptTokens},
    {"GeneratedTokens", ColumnMeaning::kOutputTokens},
};
constexpr CsvColumn kAzureSeconds[] = {
    {"arrival_s", ColumnMeaning::kArrivalSeconds},
    {"prompt_tokens", ColumnMeaning::kPromptTokens},
    {"output_tokens", ColumnMeaning::kOutputTokens},
};
constexpr CsvLayout kAzureLayouts[] = {
    {kAzureOriginal},
    {kAzureSeconds},
};

}  // namespace

const TraceFormat& AzureFormat() {
  static const TraceFormat format =
      CsvFormat("azure", "Azure LLM inference 2023/2024: TIMESTAMP,ContextTokens,GeneratedTokens",
                kAzureLayouts);
  return format;
}

}  // namespace twin
