// Results of `vllm bench serve` and of SGLang's bench_serving, which have most keys in common.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "traces/benchmark_readers.h"
#include "traces/json_fields.h"

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
  if (!request.ttft || fields.Find("itls") == nullptr) return std::nullopt;
  Duration end = *request.ttft;
  for (const Duration gap : request.gaps) end += gap;
  return end;
}

BenchmarkRequest ReadBenchRequest(const Json& row, const LineReader& lines, bool has_times) {
  const JsonRequestFields fields(row, lines);
  BenchmarkRequest request;
  request.completed = !fields.NamesError("errors") && !fields.IsZero("output_lens");
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
  // An answer that came in one piece has no first token.
  if (request.ttft && request.ttft->count() == 0) request.ttft.reset();
  request.gaps = fields.Spans("itls", 1);
  request.e2e = EndOf(fields, request);
  return request;
}

// SGLang writes "trace" for the times of a data set, and both write Infinity, which is read as
// null, or "inf", for all at once.
void ReadLoad(const Json& document, BenchmarkRun& run) {
  const auto rate = document.find("request_rate");
  if (rate != document.end() && rate->is_number() && rate->get<double>() > 0) {
    run.rate = rate->get<double>();
  } else if (rate != document.end() && (rate->is_null() || *rate == "inf")) {
    run.rate = std::numeric_limits<double>::infinity();
  }
  const auto burstiness = document.find("burstiness");
  if (burstiness != document.end() && burstiness->is_number() && burstiness->get<double>() > 0) {
    run.burstiness = burstiness->get<double>();
  }
  const auto cap = document.find("max_concurrency");
  if (cap != document.end() && cap->is_number_integer() && cap->get<std::int64_t>() > 0) {
    run.cap = static_cast<std::int32_t>(
        std::min<std::int64_t>(cap->get<std::int64_t>(), std::numeric_limits<std::int32_t>::max()));
  }
}

// Statistics under the names of summary.json.
void ReadTotals(const Json& document, BenchmarkRun& run) {
  const auto take = [&](const std::string& key, const std::string& name) {
    const auto found = document.find(key);
    if (found != document.end() && found->is_number()) run.totals[name] = found->get<double>();
  };
  for (const char* key : {"completed", "failed", "total_input_tokens", "total_output_tokens",
                          "request_throughput", "output_throughput"}) {
    take(key, key);
  }
  for (const char* statistic : {"mean", "p50", "p90", "p99"}) {
    for (const char* latency : {"ttft", "tpot", "itl", "e2el"}) {
      const std::string name = fmt::format("{}_{}_ms", statistic, latency);
      take(name, name);
    }
    take(fmt::format("{}_e2e_latency_ms", statistic), fmt::format("{}_e2el_ms", statistic));
  }
  for (const char* latency : {"ttft", "tpot", "itl", "e2el"}) {
    take(fmt::format("median_{}_ms", latency), fmt::format("p50_{}_ms", latency));
  }
  take("median_e2e_latency_ms", "p50_e2el_ms");
}

void ReadFacts(const Json& document, bool sglang, BenchmarkRun& run) {
  if (!sglang) {
    for (const auto& [key, value] : document.items()) AddFact(key, value, key, run);
    return;
  }
  const auto info = document.find("server_info");
  if (info == document.end() || !info->is_object()) return;
  for (const auto& [key, value] : info->items()) AddFact(key, value, "server_info." + key, run);
  const auto version = info->find("version");
  if (version != info->end() && version->is_string()) {
    AddFact("server", "SGLang " + version->get<std::string>(), "server_info.version", run);
  }
}

}  // namespace

BenchmarkRun ReadBenchResult(const Json& document, const LineReader& lines) {
  const bool sglang = IsSglang(document);
  BenchmarkRun run;
  run.format = sglang ? "SGLang bench_serving" : "vLLM bench";
  ReadLoad(document, run);
  ReadTotals(document, run);
  ReadFacts(document, sglang, run);
  const auto inputs = document.find("input_lens");
  if (inputs != document.end() && inputs->is_array()) {
    run.has_times = document.contains("start_times");
    for (std::size_t i = 0; i < inputs->size(); ++i) {
      const Json row = ElementsAt(
          document,
          {"input_lens", "output_lens", "start_times", "ttfts", "itls", "latencies", "errors"}, i);
      run.requests.push_back(ReadBenchRequest(row, lines, run.has_times));
    }
    return run;
  }
  for (const char* key : {"completed", "total_input_tokens", "total_output_tokens"}) {
    const auto found = run.totals.find(key);
    if (found != run.totals.end() && found->second >= 1) continue;
    lines.Refuse(fmt::format(
        "{}: missing, or none; allowed: a result of `vllm bench serve --save-result`, of SGLang's "
        "bench_serving, of guidellm, or a log of requests",
        key));
  }
  return run;
}

}  // namespace twin
