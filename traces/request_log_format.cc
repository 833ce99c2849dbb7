#include "traces/request_log_format.h"

#include <array>
#include <cstddef>
#include <string_view>

#include "traces/csv_trace_reader.h"

namespace twin {
namespace {

// Columns of a log whose times are in the column `arrival`. Logs hold more, which differs: first
// and last tokens (inference-sim, `blis observe`), latencies (inference-perf), times of vLLM's
// engine (LLMServingSim), gaps between tokens (IBM LLM pilot).
constexpr std::array<CsvColumn, 7> ColumnsBy(std::string_view arrival, ColumnMeaning meaning) {
  return {{{arrival, meaning},
           {"in_tokens", ColumnMeaning::kPromptTokens},
           {"out_tokens", ColumnMeaning::kOutputTokens},
           {"tenant", ColumnMeaning::kTenantName, false},
           {"status", ColumnMeaning::kStatus, false},
           {"error", ColumnMeaning::kError, false},
           {"success", ColumnMeaning::kStatus, false}}};
}
constexpr auto kBySendUs = ColumnsBy("send_us", ColumnMeaning::kArrivalUs);
constexpr auto kByArrivalUs = ColumnsBy("arrival_us", ColumnMeaning::kArrivalUs);
constexpr auto kByArrivalS = ColumnsBy("arrival_s", ColumnMeaning::kArrivalSeconds);
constexpr auto kByStartMs = ColumnsBy("start_ms", ColumnMeaning::kArrivalMs);
constexpr auto kByIntendedUs = ColumnsBy("intended_arrival_us", ColumnMeaning::kArrivalUs);

constexpr CsvLayout Log(std::span<const CsvColumn> columns) {
  return {
      .columns = columns, .zero_output_is_failure = true, .sorts = true, .ignores_others = true};
}
// Of several times, the first one here counts.
constexpr CsvLayout kLogs[] = {Log(kBySendUs), Log(kByArrivalUs), Log(kByArrivalS),
                               Log(kByStartMs)};
constexpr CsvLayout kIntendedLogs[] = {Log(kByIntendedUs)};

}  // namespace

const TraceFormat& RequestLogFormat() {
  static const TraceFormat format = CsvFormat(
      "request_log",
      "load generators: in_tokens, out_tokens and send_us, arrival_us, arrival_s or start_ms",
      kLogs);
  return format;
}

const TraceFormat& IntendedRequestLogFormat() {
  static const TraceFormat format = [] {
    TraceFormat by_name =
        CsvFormat("request_log_intended", "the same tables, by intended_arrival_us", kIntendedLogs);
    by_name.recognises = [](std::string_view) { return false; };
    by_name.resemblance = [](std::string_view) { return std::size_t{0}; };
    return by_name;
  }();
  return format;
}

}  // namespace twin
