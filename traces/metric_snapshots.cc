#include "traces/metric_snapshots.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/files/line_reader.h"
#include "core/input_error.h"
#include "core/number_text.h"
#include "traces/benchmark_readers.h"
#include "traces/measured_rules.h"
#include "traces/prometheus_text.h"

namespace twin {
namespace {

constexpr const char* kAllowed =
    "two snapshots of /metrics of vLLM or SGLang, before and after the run: --measured BEFORE "
    "AFTER";

// The names of a server's metrics, without its prefix. Empty: it has no such metric.
struct MetricNames {
  const char* prefix;
  const char* prompt;  // histograms of the lengths of requests that ended
  const char* output;
  const char* prompt_total;  // counters for servers that keep no such histograms
  const char* output_total;
  const char* tpot;  // (last - first token) / (tokens - 1) of each request
  const char* preemptions;
  std::initializer_list<std::pair<const char*, const char*>> cache;  // hits; tokens looked up
  const char* running;                                               // a gauge
  const char* aborted;
  const char* cache_config;  // a gauge with labels
  const char* kv_tokens;     // a gauge
  const char* waiting;       // histograms of parts of TTFT (TtftParts)
  const char* prefill;
};
// vLLM counts prompt tokens of its prefills in its counter, so that only its histograms will do.
const MetricNames kServers[] = {
    {"vllm:",
     "request_prompt_tokens",
     "request_generation_tokens",
     "",
     "",
     "request_time_per_output_token_seconds",
     "num_preemptions_total",
     {{"prefix_cache_hits_total", "prefix_cache_queries_total"},
      {"gpu_prefix_cache_hits_total", "gpu_prefix_cache_queries_total"}},
     "num_requests_running",
     "",
     "cache_config_info",
     "",
     "request_queue_time_seconds",
     "request_prefill_time_seconds"},
    {"sglang:",
     "prompt_tokens_histogram",
     "generation_tokens_histogram",
     "prompt_tokens_total",
     "generation_tokens_total",
     "",
     "num_retracted_requests_total",
     {{"cached_tokens_total", "prompt_tokens_total"}},
     "num_running_reqs",
     "num_aborted_requests_total",
     "cache_config_info",
     "max_total_num_tokens",
     "queue_time_seconds",
     ""}};

constexpr const char* kTtft = "time_to_first_token_seconds";
constexpr const char* kEnd = "e2e_request_latency_seconds";
// The second one is vLLM's older name of the first one.
constexpr std::array kGaps = {"inter_token_latency_seconds", "time_per_output_token_seconds"};
constexpr const char* kBucket = "_bucket";
// Labels by which a server tells the engines that share its requests.
constexpr std::array kEngineLabels = {"engine", "dp_rank"};

// A file's samples, under names without the server's prefix, added over label sets.
struct Snapshot {
  std::string path;
  const MetricNames* names = nullptr;
  std::map<std::string, double> values;
  std::map<std::string, std::map<double, double>> buckets;  // samples up to a value
  std::map<std::string, std::string> cache;                 // labels of cache_config
  std::set<std::string> models;
  std::set<std::string> engines;
};

void AddSample(const MetricSample& sample, Snapshot& snapshot) {
  for (const MetricNames& names : kServers) {
    if (sample.name.starts_with(names.prefix)) snapshot.names = &names;
  }
  if (snapshot.names == nullptr || !sample.name.starts_with(snapshot.names->prefix)) return;
  const std::string name = sample.name.substr(std::string_view(snapshot.names->prefix).size());
  const auto label = [&](const char* key) {
    const auto found = sample.labels.find(key);
    return found == sample.labels.end() ? std::string() : found->second;
  };
  if (const std::string model = label("model_name"); !model.empty()) snapshot.models.insert(model);
  for (const char* key : kEngineLabels) {
    if (const std::string engine = label(key); !engine.empty()) snapshot.engines.insert(engine);
  }
  if (name == snapshot.names->cache_config && snapshot.cache.empty()) {
    snapshot.cache = sample.labels;
  }
  if (!std::isfinite(sample.value)) return;
  const std::optional<double> up_to = ParseMetricValue(label("le"));
  if (name.ends_with(kBucket) && up_to && !std::isnan(*up_to)) {
    snapshot.buckets[name.substr(0, name.size() - std::string_view(kBucket).size())][*up_to] +=
        sample.value;
  } else {
    snapshot.values[name] += sample.value;
  }
}

Snapshot ReadSnapshot(const std::string& path) {
  Snapshot snapshot;
  snapshot.path = path;
  LineReader lines(path);
  std::string_view line;
  while (lines.Next(line)) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    const std::optional<MetricSample> sample = ParseMetricSample(line);
    if (!sample) lines.Refuse(fmt::format("is no sample; allowed: {}", kAllowed));
    AddSample(*sample, snapshot);
  }
  const auto refuse = [&](const std::string& what) {
    throw InputError(InputError::Kind::kData, path, what);
  };
  if (snapshot.names == nullptr || !snapshot.values.contains(std::string(kEnd) + "_count")) {
    refuse(fmt::format("has no metric vllm:{0} or sglang:{0}; allowed: {1}", kEnd, kAllowed));
  }
  if (snapshot.models.size() > 1) {
    refuse(fmt::format("has metrics of {} models; allowed: one", snapshot.models.size()));
  }
  return snapshot;
}

class Difference {
 public:
  Difference(const Snapshot& before, const Snapshot& after) : before_(before), after_(after) {
    if (before.names == after.names) return;
    throw InputError(InputError::Kind::kData, after.path,
                     fmt::format("has metrics of {}, {} those of {}; allowed: one server",
                                 after.names->prefix, before.path, before.names->prefix));
  }

  // nullopt if the second snapshot lacks the metric. A metric appears with its first sample.
  [[nodiscard]] std::optional<double> Of(const std::string& name) const {
    const auto after = after_.values.find(name);
    if (name.empty() || after == after_.values.end()) return std::nullopt;
    const auto found = before_.values.find(name);
    return Rise(name, found == before_.values.end() ? 0 : found->second, after->second);
  }
  // nullopt without samples in between.
  [[nodiscard]] std::optional<BucketHistogram> HistogramOf(const std::string& name) const {
    const std::optional<double> count = Of(name + "_count");
    const std::optional<double> sum = Of(name + "_sum");
    if (!count || !sum || !(*count > 0)) return std::nullopt;
    return BucketHistogram{.buckets = BucketsOf(name), .count = *count, .sum = *sum};
  }
  [[nodiscard]] const MetricNames& names() const { return *after_.names; }

 private:
  [[nodiscard]] double Rise(const std::string& name, double before, double after) const {
    if (after >= before) return after - before;
    throw InputError(InputError::Kind::kData, after_.path,
                     fmt::format("{}{} falls from {} to {}; allowed: the snapshot before the run "
                                 "first, without a restart of the server in between",
                                 names().prefix, name, ShortestText(before), ShortestText(after)));
  }
  [[nodiscard]] std::vector<Bucket> BucketsOf(const std::string& name) const {
    std::vector<Bucket> buckets;
    const auto after = after_.buckets.find(name);
    if (after == after_.buckets.end()) return buckets;
    const auto before = before_.buckets.find(name);
    double above = 0;
    double below = 0;  // samples up to `above`
    for (const auto& [up_to, samples] : after->second) {
      double old = 0;
      if (before != before_.buckets.end()) {
        const auto found = before->second.find(up_to);
        if (found != before->second.end()) old = found->second;
      }
      const double total = Rise(name + kBucket, old, samples);
      if (total < below) {
        throw InputError(
            InputError::Kind::kData, after_.path,
            fmt::format("{}{}{}: {} samples up to {}, {} up to {}; allowed: counts that rise",
                        names().prefix, name, kBucket, ShortestText(below), ShortestText(above),
                        ShortestText(total), ShortestText(up_to)));
      }
      if (total > below) buckets.push_back({above, up_to, total - below});
      above = up_to;
      below = total;
    }
    return buckets;
  }

  const Snapshot& before_;
  const Snapshot& after_;
};

void SetLatency(const Difference& difference, const std::string& name, const char* latency,
                BenchmarkRun& run) {
  if (name.empty() || run.histograms.contains(latency)) return;
  std::optional<BucketHistogram> histogram = difference.HistogramOf(name);
  if (!histogram) return;
  histogram->sum *= 1e3;
  for (Bucket& bucket : histogram->buckets) {
    bucket.above *= 1e3;
    bucket.up_to *= 1e3;
  }
  run.totals[fmt::format("mean_{}_ms", latency)] = histogram->mean();
  run.histograms[latency] = std::move(*histogram);
}

void SetTtftParts(const Difference& difference, BenchmarkRun& run) {
  const auto ttft = difference.HistogramOf(kTtft);
  const auto mean_ms = [&](const char* name) -> std::optional<double> {
    const auto histogram = name[0] == '\0' ? std::nullopt : difference.HistogramOf(name);
    // A part of other requests than TTFT's is no part of its mean.
    if (!histogram || !ttft || histogram->count != ttft->count) return std::nullopt;
    return 1e3 * histogram->mean();
  };
  TtftParts& parts = run.ttft_parts;
  parts.waiting_ms = mean_ms(difference.names().waiting);
  parts.prefill_ms = mean_ms(difference.names().prefill);
  if (!parts.waiting_ms || !parts.prefill_ms) return;
  const double rest_ms = 1e3 * ttft->mean() - *parts.waiting_ms - *parts.prefill_ms;
  if (rest_ms >= 0) parts.boundary_ms = rest_ms;
}

// Tokens of prompts or of outputs: their histogram, or a counter of all of them.
void SetTokens(const Difference& difference, const char* histogram, const char* counter,
               const char* key, const char* total, BenchmarkRun& run) {
  if (auto lengths = difference.HistogramOf(histogram)) {
    run.totals[total] = lengths->sum;
    run.histograms[key] = std::move(*lengths);
  } else if (const auto tokens = difference.Of(counter)) {
    run.totals[total] = *tokens;
  }
}

void AddCounters(const Difference& difference, const Snapshot& before, BenchmarkRun& run) {
  const MetricNames& names = difference.names();
  run.notes.emplace_back(
      "the times are the server's: the way to the clients and back is no part of them, nor of the "
      "simulation, unless --set names a system.boundary");
  if (const auto count = difference.Of(names.preemptions); count && *count > 0) {
    run.notes.push_back(fmt::format("the server preempted {} times", ShortestText(*count)));
  }
  for (const auto& [hits, queries] : names.cache) {
    const auto found = difference.Of(hits);
    const auto asked = difference.Of(queries);
    if (!found || !asked || !(*found > 0) || !(*asked > 0)) continue;
    run.notes.push_back(
        fmt::format("{:.1f} % of the prompts' tokens were prefix hits of the server; the simulated "
                    "prompts share nothing unless workload.prompt_pool says so",
                    100 * *found / *asked));
    break;
  }
  if (const auto aborted = difference.Of(names.aborted); aborted && *aborted > 0) {
    run.notes.push_back(fmt::format("{} requests were aborted", ShortestText(*aborted)));
  }
  const auto running = before.values.find(names.running);
  if (running != before.values.end() && running->second > 0) {
    run.notes.push_back(
        fmt::format("{} requests were running at the first snapshot; their times "
                    "before it are in the histograms, too",
                    ShortestText(running->second)));
  }
}

void AddServerFacts(const Snapshot& after, BenchmarkRun& run) {
  if (!after.models.empty()) AddFact("model", *after.models.begin(), "model_name", run);
  for (const auto& [label, value] : after.cache) {
    if (label == "engine" || label == "model_name" || value == "None") continue;
    AddFact(label, value, fmt::format("cache_config_info.{}", label), run);
  }
  const auto tokens = after.values.find(after.names->kv_tokens);
  if (tokens != after.values.end() && after.engines.size() <= 1) {
    AddFact("max_total_num_tokens", std::llround(tokens->second), after.names->kv_tokens, run);
  }
  if (after.engines.size() > 1) {
    AddFact("data_parallel_size", after.engines.size(), "labels", run);
  }
}

// Tokens of a step with drafts: vLLM counts drafts and the tokens that were accepted, SGLang has a
// gauge of the latest steps.
void AddDrafts(const Difference& difference, const Snapshot& after, BenchmarkRun& run) {
  constexpr const char* kKey = "accept_length";
  const auto drafts = difference.Of("spec_decode_num_drafts_total");
  const auto accepted = difference.Of("spec_decode_num_accepted_tokens_total");
  if (drafts && accepted && *drafts > 0) {
    const std::string length = fmt::format("{:.2f}", 1 + *accepted / *drafts);
    AddFact(kKey, length, "spec_decode_num_accepted_tokens_total", run);
  }
  const auto gauge = after.values.find("spec_accept_length");
  if (gauge != after.values.end() && gauge->second > 1) {
    AddFact(kKey, fmt::format("{:.2f}", gauge->second), gauge->first, run);
  }
}

}  // namespace

bool IsMetricSnapshot(std::string_view first_line) {
  if (first_line.starts_with("# HELP ") || first_line.starts_with("# TYPE ")) return true;
  for (const MetricNames& names : kServers) {
    if (first_line.starts_with(names.prefix)) return true;
  }
  return false;
}

BenchmarkRun ReadMetricSnapshots(const std::string& before, const std::string& after) {
  const Snapshot first = ReadSnapshot(before);
  const Snapshot second = ReadSnapshot(after);
  const Difference difference(first, second);
  const MetricNames& names = difference.names();
  BenchmarkRun run;
  run.name = std::filesystem::path(after).filename().string();
  run.format = "two snapshots of /metrics";
  const double completed = difference.Of(std::string(kEnd) + "_count").value_or(0);
  SetTokens(difference, names.prompt, names.prompt_total, kPromptHistogram, "total_input_tokens",
            run);
  SetTokens(difference, names.output, names.output_total, kOutputHistogram, "total_output_tokens",
            run);
  if (!(completed > 0) || !(run.totals["total_input_tokens"] > 0) ||
      !(run.totals["total_output_tokens"] > 0)) {
    throw InputError(InputError::Kind::kData, after,
                     fmt::format("no request ended since {}; allowed: at least one", before));
  }
  run.totals["completed"] = completed;
  SetLatency(difference, kTtft, "ttft", run);
  SetLatency(difference, kEnd, "e2el", run);
  SetLatency(difference, names.tpot, "tpot", run);
  for (const char* gaps : kGaps) SetLatency(difference, gaps, "itl", run);
  SetTtftParts(difference, run);
  AddCounters(difference, first, run);
  AddServerFacts(second, run);
  AddDrafts(difference, second, run);
  ApplyMeasuredRules(after, run);
  return run;
}

}  // namespace twin
