#include "traces/request_log_format.h"

#include "traces/csv_trace_reader.h"

namespace twin {
namespace {

// The smallest log: what a client sent.
constexpr CsvColumn kSent[] = {
    {"send_us", ColumnMeaning::kArrivalUs},
    {"in_tokens", ColumnMeaning::kPromptTokens},
    {"out_tokens", ColumnMeaning::kOutputTokens},
    {"tenant", ColumnMeaning::kTenantName, false},
};
// One row per streamed request, with the first and the last token (inference-sim, `blis observe`).
constexpr CsvColumn kStreamed[] = {
    {"req", ColumnMeaning::kUnused},
    {"tenant", ColumnMeaning::kTenantName},
    {"in_tokens", ColumnMeaning::kPromptTokens},
    {"out_tokens", ColumnMeaning::kOutputTokens},
    {"intended_arrival_us", ColumnMeaning::kUnused},
    {"send_us", ColumnMeaning::kArrivalUs},
    {"first_us", ColumnMeaning::kUnused},
    {"last_us", ColumnMeaning::kUnused},
    {"status", ColumnMeaning::kStatus},
};
constexpr CsvColumn kStreamedIntended[] = {
    {"req", ColumnMeaning::kUnused},
    {"tenant", ColumnMeaning::kTenantName},
    {"in_tokens", ColumnMeaning::kPromptTokens},
    {"out_tokens", ColumnMeaning::kOutputTokens},
    {"intended_arrival_us", ColumnMeaning::kArrivalUs},
    {"send_us", ColumnMeaning::kUnused},
    {"first_us", ColumnMeaning::kUnused},
    {"last_us", ColumnMeaning::kUnused},
    {"status", ColumnMeaning::kStatus},
};
// Latencies of an open loop (inference-sim, from inference-perf).
constexpr CsvColumn kLatencies[] = {
    {"req", ColumnMeaning::kUnused},
    {"arrival_us", ColumnMeaning::kArrivalUs},
    {"in_tokens", ColumnMeaning::kPromptTokens},
    {"out_tokens", ColumnMeaning::kOutputTokens},
    {"ttft_us", ColumnMeaning::kUnused},
    {"e2e_us", ColumnMeaning::kUnused},
    {"error", ColumnMeaning::kStatus},
};
// Times of vLLM's engine (LLMServingSim, bench).
constexpr CsvColumn kEngineTimes[] = {
    {"req", ColumnMeaning::kUnused},
    {"in_tokens", ColumnMeaning::kPromptTokens},
    {"out_tokens", ColumnMeaning::kOutputTokens},
    {"dataset_arrival_ns", ColumnMeaning::kUnused},
    {"arrival_s", ColumnMeaning::kArrivalSeconds},
    {"queued_s", ColumnMeaning::kUnused},
    {"scheduled_s", ColumnMeaning::kUnused},
    {"first_token_s", ColumnMeaning::kUnused},
    {"last_token_s", ColumnMeaning::kUnused},
};
// Closed-loop users (IBM LLM pilot).
constexpr CsvColumn kUserTimes[] = {
    {"start_ms", ColumnMeaning::kArrivalMs},     {"end_ms", ColumnMeaning::kUnused},
    {"in_tokens", ColumnMeaning::kPromptTokens}, {"out_tokens", ColumnMeaning::kOutputTokens},
    {"status", ColumnMeaning::kStatus},          {"token_deltas_ms", ColumnMeaning::kUnused},
};

constexpr CsvLayout Log(std::span<const CsvColumn> columns) {
  return {.columns = columns, .zero_output_is_failure = true, .sorts = true};
}
constexpr CsvLayout kLogs[] = {Log(kSent), Log(kStreamed), Log(kLatencies), Log(kEngineTimes),
                               Log(kUserTimes)};
constexpr CsvLayout kIntendedLogs[] = {Log(kStreamedIntended)};

}  // namespace

const TraceFormat& RequestLogFormat() {
  static const TraceFormat format = CsvFormat(
      "request_log", "load generators: send_us,in_tokens,out_tokens, or request tables", kLogs);
  return format;
}

const TraceFormat& IntendedRequestLogFormat() {
  static const TraceFormat format =
      CsvFormat("request_log_intended", "the same tables, by intended_arrival_us", kIntendedLogs);
  return format;
}

}  // namespace twin
