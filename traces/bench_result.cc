// Results of `vllm bench serve` and of SGLang's bench_serving, which have most keys in common.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "traces/benchmark_readers.h"
#include "traces/json_fields.h"
#include "traces/units.h"

namespace twin {
namespace {

using Json = nlohmann::json;

// Keys that SGLang alone writes.
bool IsSglang(const Json& document) {
  return std::ranges::any_of(
      std::to_array({"server_info", "total_output_tokens_retokenized", "sharegpt_output_len",
                     "random_range_ratio", "mean_e2e_latency_ms"}),
      [&](const char* key) { return document.contains(key); });
}

// The last token's time is that of the answer's last piece.
std::optional<Duration> EndOf(const JsonRequestFields& fields, const BenchmarkRequest& request) {
  if (const auto latency = fields.Span("latencies", 1); latency && latency->count() > 0) {
    return latency;
  }
  // An answer that came in one piece has no first token.
  const bool streamed = request.ttft && request.ttft->count() > 0;
  if (!streamed || fields.Find("itls") == nullptr) return std::nullopt;
  Duration end = *request.ttft;
  for (const Duration gap : request.gaps) end += gap;
  return end;
}

BenchmarkRequest ReadBenchRequest(const Json& row, const LineReader& lines, bool has_times) {
  const JsonRequestFields fields(row, lines);
  BenchmarkRequest request;
  request.without_output = !fields.NamesError("errors") && fields.IsZero("output_lens");
  request.completed = !fields.NamesError("errors") && !request.without_output;
  if (has_times) request.sent = fields.Time("start_times", 1);
  if (!request.completed) {
    if (fields.Find("input_lens") != nullptr && !fields.IsZero("input_lens")) {
      request.prompt_tokens = fields.Tokens("input_lens");
    }
    return request;
  }
  request.prompt_tokens = fields.Tokens("input_lens");
  request.output_tokens = fields.Tokens("output_lens");
  request.ttft = fields.Span("ttfts", 1);
  request.gaps = fields.Spans("itls", 1);
  request.e2e = EndOf(fields, request);
  return request;
}

// The first piece of a chat names the role of who answers, and has no token: with a gap for each
// token, the first gap is the time from that piece to the first token.
void SkipRole(BenchmarkRequest& request) {
  if (!request.ttft || std::ssize(request.gaps) != request.output_tokens) return;
  *request.ttft += request.gaps.front();
  request.gaps.erase(request.gaps.begin());
}

bool IsChat(const Json& document) {
  for (const char* key : {"endpoint_type", "backend"}) {
    const auto found = document.find(key);
    if (found == document.end() || !found->is_string()) continue;
    if (found->get<std::string>().find("chat") != std::string::npos) return true;
  }
  return false;
}

// SGLang writes "trace" for the times of a data set, and both write Infinity, which is read as
// null, or "inf", for all at once.
void ReadLoad(const JsonRequestFields& fields, const Json& document, const LineReader& lines,
              BenchmarkRun& run) {
  const auto rate = document.find("request_rate");
  if (rate != document.end() && (rate->is_null() || *rate == "inf")) {
    run.rate = std::numeric_limits<double>::infinity();
  } else if (rate != document.end() && *rate != "trace") {
    run.rate = fields.Number("request_rate");
  }
  run.burstiness = fields.Number("burstiness").value_or(1);
  if (run.rate == 0.0) lines.RefuseField("request_rate", "0", "a number above 0, or inf");
  if (run.burstiness == 0) lines.RefuseField("burstiness", "0", "a number above 0");
  if (const auto cap = fields.Number("max_concurrency"); cap && *cap >= 1) {
    run.cap =
        static_cast<std::int32_t>(std::min<double>(*cap, std::numeric_limits<std::int32_t>::max()));
  }
}

// Statistics under the names of summary.json.
void ReadTotals(const JsonRequestFields& fields, BenchmarkRun& run) {
  const auto take = [&](const std::string& key, const std::string& name, double factor = 1) {
    if (const auto value = fields.Number(key)) run.totals.try_emplace(name, *value * factor);
  };
  for (const char* key : {"completed", "failed", "total_input_tokens", "total_output_tokens",
                          "request_throughput", "output_throughput"}) {
    take(key, key);
  }
  take("duration", kDurationTotal);
  constexpr std::pair<const char*, const char*> kStatistics[] = {
      {"mean", "mean"}, {"median", "p50"}, {"p50", "p50"}, {"p90", "p90"}, {"p99", "p99"}};
  constexpr std::pair<const char*, const char*> kLatencies[] = {
      {"ttft", "ttft"}, {"tpot", "tpot"}, {"itl", "itl"},
      {"e2el", "e2el"}, {"e2e", "e2el"},  {"e2e_latency", "e2el"}};
  for (const auto& [statistic, statistic_here] : kStatistics) {
    for (const auto& [latency, latency_here] : kLatencies) {
      for (const NameUnit& unit : kNameUnits) {
        take(fmt::format("{}_{}{}", statistic, latency, unit.suffix),
             fmt::format("{}_{}_ms", statistic_here, latency_here), unit.seconds * 1e3);
      }
    }
  }
}

// Keys that vLLM's benchmark writes itself; all others are the user's metadata.
bool IsResult(std::string_view key) {
  constexpr std::string_view kResults[] = {"date",
                                           "backend",
                                           "endpoint_type",
                                           "label",
                                           "tokenizer_id",
                                           "num_prompts",
                                           "request_rate",
                                           "burstiness",
                                           "max_concurrency",
                                           "duration",
                                           "completed",
                                           "failed",
                                           "total_input_tokens",
                                           "total_output_tokens",
                                           "total_input",
                                           "total_output",
                                           "request_throughput",
                                           "request_goodput",
                                           "request_goodput:",
                                           "output_throughput",
                                           "total_token_throughput",
                                           "max_output_tokens_per_s",
                                           "max_concurrent_requests",
                                           "rtfx",
                                           "input_lens",
                                           "output_lens",
                                           "ttfts",
                                           "itls",
                                           "latencies",
                                           "start_times",
                                           "generated_texts",
                                           "errors",
                                           "ramp_up_strategy",
                                           "ramp_up_start_rps",
                                           "ramp_up_end_rps"};
  if (std::ranges::find(kResults, key) != std::end(kResults)) return true;
  const std::string_view statistic = key.substr(0, key.find('_'));
  const bool is_percentile =
      statistic.size() > 1 && statistic[0] == 'p' &&
      statistic.find_first_not_of("0123456789.", 1) == std::string_view::npos;
  return is_percentile || statistic == "mean" || statistic == "median" || statistic == "std" ||
         statistic == "percentiles";
}

void ReadFacts(const Json& document, bool sglang, BenchmarkRun& run) {
  if (!sglang) {
    for (const auto& [key, value] : document.items()) {
      if (!IsResult(key)) AddFact(key, value, key, run);
    }
    return;
  }
  // Tokens of a step with drafts.
  if (document.contains("accept_length")) {
    AddFact("accept_length", document["accept_length"], "accept_length", run);
  }
  const auto info = document.find("server_info");
  if (info == document.end() || !info->is_object()) return;
  for (const auto& [key, value] : info->items()) {
    if (key == "version") continue;
    // SGLang's --device is a kind of device, "cuda", and not the name of one.
    AddFact(key == "device" ? "device_kind" : key, value, "server_info." + key, run);
  }
  const auto version = info->find("version");
  if (version != info->end() && version->is_string()) {
    AddFact("server", "SGLang " + version->get<std::string>(), "server_info.version", run);
  }
}

}  // namespace

BenchmarkRun ReadBenchResult(const Json& document, const LineReader& lines) {
  const bool sglang = IsSglang(document);
  const JsonRequestFields fields(document, lines);
  BenchmarkRun run;
  run.format = sglang ? "SGLang bench_serving" : "vLLM bench";
  ReadLoad(fields, document, lines, run);
  ReadTotals(fields, run);
  ReadFacts(document, sglang, run);
  const auto inputs = document.find("input_lens");
  if (inputs == document.end() || !inputs->is_array() || inputs->empty()) return run;
  const bool chat = IsChat(document);
  run.has_times = document.contains("start_times");
  for (const Json& row : RowsOfLists(
           document,
           {"input_lens", "output_lens", "start_times", "ttfts", "itls", "latencies", "errors"},
           lines)) {
    run.requests.push_back(ReadBenchRequest(row, lines, run.has_times));
    run.lists_gaps = run.lists_gaps || row.contains("itls");
    if (chat) SkipRole(run.requests.back());
  }
  return run;
}

}  // namespace twin
