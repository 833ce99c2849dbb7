#include "traces/apexplus_format.h"

#include "traces/csv_trace_reader.h"

namespace twin {
namespace {

constexpr CsvColumn kApexPlusColumns[] = {
    {"tokenizer", ColumnMeaning::kGroup},
    {"workload", ColumnMeaning::kGroup},
    {"poisson_rate", ColumnMeaning::kGroup},
    {"arrival_s", ColumnMeaning::kArrivalSeconds},
    {"prompt_tokens", ColumnMeaning::kPromptTokens},
    {"output_tokens", ColumnMeaning::kOutputTokens},
};
constexpr CsvLayout kApexPlusLayouts[] = {
    {kApexPlusColumns},
};

}  // namespace

const TraceFormat& ApexPlusFormat() {
  static const TraceFormat format =
      CsvFormat("apexplus",
                "apex_plus: tokenizer,workload,poisson_rate,arrival_s,prompt_tokens,output_tokens",
                kApexPlusLayouts);
  return format;
}

}  // namespace twin
