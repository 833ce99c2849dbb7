// All formats of trace files: the columns or keys of each, and the table TraceFormats(). README.md
// describes them for users.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "traces/benchmark_reports.h"
#include "traces/csv_trace_reader.h"
#include "traces/jsonl_trace_reader.h"
#include "traces/session_numbers.h"
#include "traces/trace_format.h"

namespace twin {
namespace {

// The Azure LLM inference traces of 2023 and 2024 (Azure/AzurePublicDataset, CC-BY-4.0).
constexpr CsvColumn kAzureOriginal[] = {
    {"TIMESTAMP", ColumnMeaning::kTimestamp},
    {"NumImages", ColumnMeaning::kUnused, false},  // in the multimodal trace of 2025
    {"ContextTokens", ColumnMeaning::kPromptTokens},
    {"GeneratedTokens", ColumnMeaning::kOutputTokens},
};
constexpr CsvColumn kAzureSeconds[] = {
    {"arrival_s", ColumnMeaning::kArrivalSeconds},
    {"prompt_tokens", ColumnMeaning::kPromptTokens},
    {"output_tokens", ColumnMeaning::kOutputTokens},
};
constexpr CsvLayout kAzure[] = {{kAzureOriginal}, {kAzureSeconds}};

// The Qwen-Bailian traces (alibaba-edu/qwen-bailian-usagetraces-anon, Apache-2.0): the keys of
// Mooncake's lines, but seconds and chunks of 16 tokens.
constexpr JsonlLayout kQwenBailian[] = {{
    .arrival_key = "timestamp",
    .arrival_unit_seconds = 1,
    .prompt_key = "input_length",
    .output_key = "output_length",
    .name_key = "chat_id",
    .before_key = "parent_chat_id",
    .prefix_chunk_tokens = 16,
    .chunks_key = "hash_ids",
}};

// The Mooncake traces (kvcache-ai/Mooncake, FAST25-release, Apache-2.0).
constexpr JsonlLayout kMooncake[] = {{
    .arrival_key = "timestamp",
    .arrival_unit_seconds = 1e-3,
    .prompt_key = "input_length",
    .output_key = "output_length",
    .prefix_chunk_tokens = 512,
    .chunks_key = "hash_ids",
}};

// LLMServingSim workloads (casys-kaist/LLMServingSim, MIT): requests and sessions with token ids,
// as its generators write them, or copies with chained 16-token block ids instead. A server's cache
// knows whole blocks; 16 tokens are the most common size.
constexpr std::int32_t kLlmServingSimBlockTokens = 16;
constexpr JsonlLayout kLlmServingSim[] = {
    {
        .arrival_key = "arrival_time_ns",
        .arrival_unit_seconds = 1e-9,
        .prompt_key = "input_toks",
        .output_key = "output_toks",
        .prefix_chunk_tokens = kLlmServingSimBlockTokens,
        .prompt_ids_key = "input_tok_ids",
        .output_ids_key = "output_tok_ids",
        .turns_key = "sub_requests",
        .pause_ns_key = "tool_duration_ns",
        .refused_key = "nodes",
        .sorts = true,
    },
    {
        .arrival_key = "arrival_s",
        .arrival_unit_seconds = 1,
        .prompt_key = "prompt_tokens",
        .output_key = "output_tokens",
        .prefix_chunk_tokens = kLlmServingSimBlockTokens,
        .chunks_key = "block_hash_ids_16tok",
    },
};

// The BurstGPT traces (HPMLL/BurstGPT, CC-BY-4.0). A row with 0 response tokens is a failed
// request.
constexpr CsvColumn kBurstGptColumns[] = {
    {"Timestamp", ColumnMeaning::kArrivalSeconds},
    {"Session ID", ColumnMeaning::kSessionName, false},
    {"Elapsed time", ColumnMeaning::kUnused, false},
    {"Model", ColumnMeaning::kLabel},
    {"Request tokens", ColumnMeaning::kPromptTokens},
    {"Response tokens", ColumnMeaning::kOutputTokens},
    {"Total tokens", ColumnMeaning::kDerived},
    {"Log Type", ColumnMeaning::kLabel},
};
constexpr CsvLayout kBurstGpt[] = {{kBurstGptColumns, /*zero_output_is_failure=*/true}};

// The workloads of apex_plus (microsoft/apex_plus, MIT). Arrivals restart in every group.
constexpr CsvColumn kApexPlusColumns[] = {
    {"tokenizer", ColumnMeaning::kGroup},
    {"workload", ColumnMeaning::kGroup},
    {"poisson_rate", ColumnMeaning::kGroup},
    {"arrival_s", ColumnMeaning::kArrivalSeconds},
    {"prompt_tokens", ColumnMeaning::kPromptTokens},
    {"output_tokens", ColumnMeaning::kOutputTokens},
};
constexpr CsvLayout kApexPlus[] = {{kApexPlusColumns}};

// The traces of the Vidur simulator (microsoft/vidur, data/processed_traces, MIT).
constexpr CsvColumn kVidurArrivals[] = {
    {"arrived_at", ColumnMeaning::kArrivalSeconds},
    {"num_prefill_tokens", ColumnMeaning::kPromptTokens},
    {"num_decode_tokens", ColumnMeaning::kOutputTokens},
    {"num_total_tokens", ColumnMeaning::kDerived, false},
    {"pd_ratio", ColumnMeaning::kDerived, false},
};
constexpr CsvColumn kPlainLengths[] = {
    {"prompt_tokens", ColumnMeaning::kPromptTokens},
    {"output_tokens", ColumnMeaning::kOutputTokens},
};
constexpr CsvLayout kVidur[] = {
    {kVidurArrivals},
    {std::span(kVidurArrivals).subspan<1>()},
    {kPlainLengths},
};

// Prompt and output lengths of ShareGPT conversations, without arrivals.
constexpr CsvColumn kShareGptShort[] = {
    {"input_len", ColumnMeaning::kPromptTokens},
    {"output_len", ColumnMeaning::kOutputTokens},
};
constexpr CsvLayout kShareGpt[] = {{kPlainLengths}, {kShareGptShort}};

// The CSV format of twinserve: one column per property of a request, with units in the names.
constexpr std::array<CsvColumn, 10> TwinColumns(std::string_view arrival, ColumnMeaning meaning) {
  return {{{arrival, meaning},
           {"prompt_tokens", ColumnMeaning::kPromptTokens},
           {"output_tokens", ColumnMeaning::kOutputTokens},
           {"max_output_tokens", ColumnMeaning::kMaxOutputTokens, false},
           {"predicted_output_tokens", ColumnMeaning::kPredictedTokens, false},
           {"priority", ColumnMeaning::kPriority, false},
           {"tenant", ColumnMeaning::kTenant, false},
           {"session", ColumnMeaning::kSession, false},
           {"prefix_chunk_tokens", ColumnMeaning::kPrefixChunkTokens, false},
           {"prefix_chunks", ColumnMeaning::kPrefixChunks, false}}};
}
constexpr auto kTwinNanoseconds = TwinColumns("arrival_ns", ColumnMeaning::kArrivalNs);
constexpr auto kTwinSeconds = TwinColumns("arrival_s", ColumnMeaning::kArrivalSeconds);
constexpr CsvLayout kTwin[] = {
    {kTwinNanoseconds},
    {kTwinSeconds},
    {std::span(kTwinSeconds).subspan<1>()},  // lengths without arrivals
};

// Logs of load generators: tables with in_tokens, out_tokens and the time at which a request was
// sent, as published serving runs have them too. Rows come in any order, the first request is sent
// at time zero, and failed requests are skipped. Logs have further columns that differ between
// tools: first and last tokens (inference-sim, `blis observe`), latencies (inference-perf), times
// of vLLM's engine (LLMServingSim), gaps between tokens (IBM LLM pilot).
constexpr std::array<CsvColumn, 10> LogColumns(std::string_view arrival, ColumnMeaning meaning) {
  return {{{arrival, meaning},
           {"in_tokens", ColumnMeaning::kPromptTokens},
           {"out_tokens", ColumnMeaning::kOutputTokens},
           {"tenant", ColumnMeaning::kTenantName, false},
           {"status", ColumnMeaning::kStatus, false},
           {"error", ColumnMeaning::kError, false},
           {"success", ColumnMeaning::kStatus, false},
           {kSessionNames[0], ColumnMeaning::kSessionName, false},
           {kSessionNames[1], ColumnMeaning::kSessionName, false},
           {kSessionNames[2], ColumnMeaning::kSessionName, false}}};
}
constexpr auto kBySendUs = LogColumns("send_us", ColumnMeaning::kArrivalUs);
constexpr auto kBySendMs = LogColumns("send_ms", ColumnMeaning::kArrivalMs);
constexpr auto kBySendNs = LogColumns("send_ns", ColumnMeaning::kArrivalNs);
constexpr auto kBySendS = LogColumns("send_s", ColumnMeaning::kArrivalSeconds);
constexpr auto kByArrivalUs = LogColumns("arrival_us", ColumnMeaning::kArrivalUs);
constexpr auto kByArrivalMs = LogColumns("arrival_ms", ColumnMeaning::kArrivalMs);
constexpr auto kByArrivalNs = LogColumns("arrival_ns", ColumnMeaning::kArrivalNs);
constexpr auto kByArrivalS = LogColumns("arrival_s", ColumnMeaning::kArrivalSeconds);
constexpr auto kByStartUs = LogColumns("start_us", ColumnMeaning::kArrivalUs);
constexpr auto kByStartMs = LogColumns("start_ms", ColumnMeaning::kArrivalMs);
constexpr auto kByStartNs = LogColumns("start_ns", ColumnMeaning::kArrivalNs);
constexpr auto kByStartS = LogColumns("start_s", ColumnMeaning::kArrivalSeconds);
constexpr auto kByIntendedUs = LogColumns("intended_arrival_us", ColumnMeaning::kArrivalUs);

constexpr CsvLayout LogLayout(std::span<const CsvColumn> columns) {
  return {
      .columns = columns, .zero_output_is_failure = true, .sorts = true, .ignores_others = true};
}
// If a log has several of these times, the first one in this list counts.
constexpr CsvLayout kRequestLog[] = {
    LogLayout(kBySendUs),    LogLayout(kBySendMs),    LogLayout(kBySendNs),
    LogLayout(kBySendS),     LogLayout(kByArrivalUs), LogLayout(kByArrivalMs),
    LogLayout(kByArrivalNs), LogLayout(kByArrivalS),  LogLayout(kByStartUs),
    LogLayout(kByStartMs),   LogLayout(kByStartNs),   LogLayout(kByStartS)};
// The time at which an open-loop client wanted to send: with workload.max_in_flight the simulated
// client falls behind as the recorded one did.
constexpr CsvLayout kIntendedRequestLog[] = {LogLayout(kByIntendedUs)};

TraceFormat CsvFormat(std::string name, std::string description,
                      std::span<const CsvLayout> layouts) {
  return {std::move(name), std::move(description),
          [layouts](std::string_view line) { return MatchCsvHeader(layouts, line) != nullptr; },
          [layouts](std::string_view line) { return KnownCsvColumns(layouts, line); },
          [layouts](std::unique_ptr<LineReader> lines, const TraceReadOptions& options) {
            return OpenCsvTrace(std::move(lines), layouts, options);
          }};
}

TraceFormat JsonlFormat(std::string name, std::string description,
                        std::span<const JsonlLayout> layouts) {
  return {std::move(name), std::move(description),
          [layouts](std::string_view line) { return MatchJsonl(layouts, line) != nullptr; },
          [layouts](std::string_view line) { return KnownJsonlKeys(layouts, line); },
          [layouts](std::unique_ptr<LineReader> lines, const TraceReadOptions& options) {
            return OpenJsonlTrace(std::move(lines), layouts, options);
          }};
}

// The format, used only where it is named and never recognised.
TraceFormat OnlyByName(TraceFormat format) {
  format.recognises = [](std::string_view) { return false; };
  format.resemblance = [](std::string_view) { return std::size_t{0}; };
  return format;
}

std::vector<TraceFormat> AllFormats() {
  std::vector<TraceFormat> formats{
      CsvFormat("azure", "Azure LLM inference 2023/2024: TIMESTAMP,ContextTokens,GeneratedTokens",
                kAzure),
      // Before Mooncake: its lines have all keys of Mooncake's.
      JsonlFormat("qwen_bailian",
                  "Qwen-Bailian JSONL: timestamp (s), input_length, output_length, parent_chat_id, "
                  "hash_ids",
                  kQwenBailian),
      JsonlFormat("mooncake",
                  "Mooncake JSONL: timestamp (ms), input_length, output_length, hash_ids",
                  kMooncake),
      JsonlFormat("llmservingsim",
                  "LLMServingSim JSONL: arrival_time_ns, input_toks, output_toks, input_tok_ids, "
                  "sub_requests; or arrival_s, prompt_tokens, output_tokens, block_hash_ids_16tok",
                  kLlmServingSim),
      CsvFormat("burstgpt",
                "BurstGPT: Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
                kBurstGpt),
      CsvFormat("apexplus",
                "apex_plus: "
                "tokenizer,workload,poisson_rate,arrival_s,prompt_tokens,output_tokens",
                kApexPlus),
      CsvFormat("vidur", "Vidur: [arrived_at,]num_prefill_tokens,num_decode_tokens", kVidur),
      CsvFormat("sharegpt",
                "ShareGPT-style lengths: prompt_tokens,output_tokens or input_len,output_len",
                kShareGpt),
      CsvFormat("twin",
                "twinserve: arrival_ns or arrival_s,prompt_tokens,output_tokens and optional "
                "columns",
                kTwin),
      CsvFormat("request_log",
                "load generators: in_tokens, out_tokens and send_us, arrival_us or start_us (also "
                "in _ms, _ns and _s)",
                kRequestLog),
      OnlyByName(CsvFormat("request_log_intended", "the same tables, by intended_arrival_us",
                           kIntendedRequestLog)),
  };
  for (TraceFormat& format : formats) format.measured = format.name.starts_with("request_log");
  std::ranges::move(BenchmarkFormats(), std::back_inserter(formats));
  return formats;
}

}  // namespace

const std::vector<TraceFormat>& TraceFormats() {
  static const std::vector<TraceFormat> formats = AllFormats();
  return formats;
}

}  // namespace twin
