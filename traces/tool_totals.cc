// Totals of whole runs in the results of AIPerf and guidellm, under the names of summary.json.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "traces/benchmark_readers.h"

namespace twin {
namespace {

constexpr double kMsPerSecond = 1e3;
// A statistic in a file, and its name here.
using Named = std::pair<const char*, const char*>;

// Enters a file's number, if it has one, times `factor`.
void Take(const JsonRequestFields& fields, const std::string& path, double factor,
          const std::string& name, BenchmarkRun& run) {
  if (const auto value = fields.Number(path)) run.totals[name] = *value * factor;
}

// Tokens of all requests, from the mean of those that completed.
void TakeTokens(const JsonRequestFields& fields, const std::string& mean, const char* name,
                BenchmarkRun& run) {
  const auto completed = run.totals.find("completed");
  if (completed != run.totals.end()) Take(fields, mean, completed->second, name, run);
}

}  // namespace

void AddAiPerfTotals(const JsonRequestFields& summary, BenchmarkRun& run) {
  const auto average = [&](const char* metric, Quantity quantity, const char* name) {
    Take(summary, fmt::format("{}.avg", metric), summary.UnitFactor(metric, quantity, 1), name,
         run);
  };
  average("request_count", Quantity::kRequests, "completed");
  average("error_request_count", Quantity::kRequests, "failed");
  average("request_throughput", Quantity::kRequestRate, "request_throughput");
  average("output_token_throughput", Quantity::kTokenRate, "output_throughput");
  average("benchmark_duration", Quantity::kTime, kDurationTotal);
  for (const auto& [metric, name] : {Named{"input_sequence_length", "total_input_tokens"},
                                     Named{"output_sequence_length", "total_output_tokens"}}) {
    summary.UnitFactor(metric, Quantity::kTokens, 1);
    TakeTokens(summary, fmt::format("{}.avg", metric), name, run);
  }
  // Its time between tokens is one number per request, by the formula of TPOT.
  for (const auto& [metric, latency] :
       {Named{"time_to_first_token", "ttft"}, Named{"inter_token_latency", "tpot"},
        Named{"request_latency", "e2el"}}) {
    const double ms = kMsPerSecond * summary.UnitFactor(metric, Quantity::kTime, 1e-3);
    for (const auto& [statistic, name] :
         {Named{"avg", "mean"}, Named{"p50", "p50"}, Named{"p90", "p90"}, Named{"p99", "p99"}}) {
      Take(summary, fmt::format("{}.{}", metric, statistic), ms,
           fmt::format("{}_{}_ms", name, latency), run);
    }
  }
}

void AddGuidellmTotals(const JsonRequestFields& benchmark, BenchmarkRun& run) {
  const auto path = [](const char* metric, const char* statistic) {
    return fmt::format("metrics.{}.successful.{}", metric, statistic);
  };
  for (const char* root : {"total_count", "metrics.request_totals"}) {
    Take(benchmark, fmt::format("{}.successful", root), 1, "completed", run);
    const auto errored = benchmark.Number(fmt::format("{}.errored", root));
    const auto incomplete = benchmark.Number(fmt::format("{}.incomplete", root));
    if (errored || incomplete) run.totals["failed"] = errored.value_or(0) + incomplete.value_or(0);
  }
  Take(benchmark, path("requests_per_second", "mean"), 1, "request_throughput", run);
  Take(benchmark, path("output_tokens_per_second", "mean"), 1, "output_throughput", run);
  TakeTokens(benchmark, path("prompt_token_count", "mean"), "total_input_tokens", run);
  TakeTokens(benchmark, path("output_token_count", "mean"), "total_output_tokens", run);
  const auto take = [&](const char* metric, const char* latency, double ms) {
    for (const auto& [statistic, name] :
         {Named{"mean", "mean"}, Named{"median", "p50"}, Named{"percentiles.p90", "p90"},
          Named{"percentiles.p99", "p99"}}) {
      Take(benchmark, path(metric, statistic), ms, fmt::format("{}_{}_ms", name, latency), run);
    }
  };
  take("time_to_first_token_ms", "ttft", 1);
  take("request_latency", "e2el", kMsPerSecond);
  // Some releases weight it by requests, some by tokens: the same for answers of one length.
  if (benchmark.Number(path("output_token_count", "std_dev")) == 0.0) {
    take("inter_token_latency_ms", "tpot", 1);
  } else if (benchmark.Find("metrics.inter_token_latency_ms") != nullptr) {
    run.notes.emplace_back(
        "metrics.inter_token_latency_ms is not read: releases of guidellm weight its mean by "
        "tokens or by requests");
  }
}

}  // namespace twin
