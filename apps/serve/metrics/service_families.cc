#include "apps/serve/metrics/service_families.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <utility>

namespace twin::serve {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

ClientMetric Sample(MetricType type, const prometheus::Labels& labels, double value) {
  ClientMetric metric;
  for (const auto& [name, text] : labels) metric.label.push_back({name, text});
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  return metric;
}

class FamilyList {
 public:
  explicit FamilyList(prometheus::Labels labels) : labels_(std::move(labels)) {}

  template <typename Number>
  void Gauge(const std::string& name, const std::string& help, Number value,
             const prometheus::Labels& more = {}) {
    Add(MetricType::Gauge, name, help, static_cast<double>(value), more);
  }
  template <typename Number>
  void Counter(const std::string& name, const std::string& help, Number value) {
    Add(MetricType::Counter, name + "_total", help, static_cast<double>(value), {});
  }
  // One sample for each value of the label `key`.
  using Parts = std::vector<std::pair<std::string, std::int64_t>>;
  void Gauges(const std::string& name, const std::string& help, const std::string& key,
              const Parts& parts) {
    AddParts(MetricType::Gauge, name, help, key, parts);
  }
  void Counters(const std::string& name, const std::string& help, const std::string& key,
                const Parts& parts) {
    AddParts(MetricType::Counter, name + "_total", help, key, parts);
  }

  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  void Add(MetricType type, const std::string& name, const std::string& help, double value,
           const prometheus::Labels& more) {
    prometheus::Labels labels = labels_;
    labels.insert(more.begin(), more.end());
    families_.push_back({name, help, type, {Sample(type, labels, value)}});
  }
  void AddParts(MetricType type, const std::string& name, const std::string& help,
                const std::string& key, const Parts& parts) {
    MetricFamily family{name, help, type, {}};
    for (const auto& [part, value] : parts) {
      prometheus::Labels labels = labels_;
      labels.emplace(key, part);
      family.metric.push_back(Sample(type, labels, static_cast<double>(value)));
    }
    families_.push_back(std::move(family));
  }

  prometheus::Labels labels_;
  std::vector<MetricFamily> families_;
};

double ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  double total = 0;
  double resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// Uses opendir: std::filesystem's iterator ends the process if there is no memory for it.
double OpenFiles() {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  double files = 0;
  while (const dirent* const entry = readdir(folder)) {
    if (entry->d_name[0] != '.') ++files;
  }
  closedir(folder);
  return files;
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void AddPromptTokens(const run::ServiceState& state, FamilyList& list) {
  list.Counter("vllm:prompt_tokens", "Prompt tokens of requests with a first token.",
               state.prompt_tokens);
  list.Counter("vllm:prompt_tokens_cached", "Of these, found in the prefix cache.",
               state.cached_prompt_tokens);
  list.Counters("vllm:prompt_tokens_by_source", "Prompt tokens by where their keys came from.",
                "source",
                {{"local_compute", state.prompt_tokens - state.cached_prompt_tokens},
                 {"local_cache_hit", state.cached_prompt_tokens},
                 {"external_kv_transfer", 0}});
  list.Counters("vllm:prompt_tokens_cached_by_source",
                "Cached prompt tokens of admitted requests by where they were.", "source",
                {{"device", state.cache_hit_tokens},
                 {"host", 0},
                 {"p2p", 0},
                 {"disk", 0},
                 {"external_unspecified", 0}});
}

void AddCaches(const run::ServiceState& state, FamilyList& list) {
  list.Counter("vllm:prefix_cache_queries", "Prompt tokens looked up in the prefix cache.",
               state.cache_queried_tokens);
  list.Counter("vllm:prefix_cache_hits", "Prompt tokens found in the prefix cache.",
               state.cache_hit_tokens);
  // Caches that do not exist here. Dashboards divide by their counters.
  list.Counter("vllm:external_prefix_cache_queries", "Prompt tokens looked up elsewhere.", 0);
  list.Counter("vllm:external_prefix_cache_hits", "Prompt tokens found elsewhere.", 0);
  list.Counter("vllm:mm_cache_queries", "Images and sounds looked up.", 0);
  list.Counter("vllm:mm_cache_hits", "Images and sounds found.", 0);
}

void AddDrafts(const run::ServedModel& model, const run::DraftCounts& drafts, FamilyList& list) {
  if (model.drafts_max == 0) return;
  list.Counter("vllm:spec_decode_num_drafts", "Drafts that steps verified.", drafts.drafts);
  list.Counter("vllm:spec_decode_num_draft_tokens", "Tokens of drafts.", drafts.tokens);
  list.Counter("vllm:spec_decode_num_accepted_tokens", "Accepted tokens of drafts.",
               drafts.accepted);
  FamilyList::Parts places;
  for (std::size_t i = 0; i < static_cast<std::size_t>(model.drafts_max); ++i) {
    const bool seen = i < drafts.accepted_at.size();
    places.emplace_back(fmt::to_string(i), seen ? drafts.accepted_at[i] : 0);
  }
  list.Counters("vllm:spec_decode_num_accepted_tokens_per_pos",
                "Accepted tokens of drafts by their place in the draft.", "position", places);
}

}  // namespace

std::vector<MetricFamily> ServiceFamilies(const run::ServedModel& model,
                                          const run::ServiceState& state,
                                          const prometheus::Labels& labels) {
  FamilyList list(labels);
  list.Gauge("vllm:num_requests_running", "Requests in the running batch.", state.running);
  list.Gauge("vllm:num_requests_waiting", "Requests waiting to be scheduled.", state.waiting);
  list.Gauges("vllm:num_requests_waiting_by_reason",
              "Waiting requests; policies here pass nobody over, which vLLM calls deferred.",
              "reason", {{"capacity", state.waiting}, {"deferred", 0}});
  list.Gauge("vllm:kv_cache_usage_perc", "Used share of the KV blocks, 0 to 1.", state.kv_usage);
  list.Gauge("vllm:cache_config_info", "The KV cache's configuration, as labels.", 1,
             {{"block_size", fmt::to_string(model.block_size)},
              {"num_gpu_blocks", fmt::to_string(model.blocks)}});
  list.Gauges("vllm:engine_sleep_state", "1 for the state that the engine is in.", "sleep_state",
              {{"awake", 1}, {"weights_offloaded", 0}, {"discard_all", 0}});
  AddCaches(state, list);
  list.Counter("vllm:num_preemptions", "Preemptions.", state.preemptions);
  AddPromptTokens(state, list);
  list.Counter("vllm:generation_tokens", "Generated tokens.", state.generated_tokens);
  AddDrafts(model, state.drafts, list);
  list.Counter("twinserve:steps", "Steps of the engine.", state.steps);
  list.Counter("twinserve:late_steps", "Emulated steps told more than one step after their time.",
               state.late_steps);
  list.Gauge("twinserve:waiting_prompt_tokens", "Prompt tokens of waiting requests.",
             state.waiting_prompt_tokens);
  list.Gauge("twinserve:speed", "Seconds of the engine per second of the wall clock.", model.speed);
  return list.Take();
}

std::vector<MetricFamily> TgiFamilies(const run::ServedModel& model,
                                      const run::ServiceState& state) {
  FamilyList list({});
  list.Gauge("tgi_queue_size", "Requests waiting in the queue.", state.waiting);
  list.Gauge("tgi_batch_current_size", "Requests in the running batch.", state.running);
  list.Gauge("tgi_batch_current_max_tokens", "Prompts and output limits of the running batch.",
             state.reserved_tokens);
  list.Gauge("tgi_batch_max_total_tokens", "What these may reach.", model.tgi->max_total_tokens);
  return list.Take();
}

std::vector<MetricFamily> ProcessFamilies(const HttpCounts& http) {
  FamilyList list({});
  list.Gauge("twinserve:http_connections", "Open connections.", http.connections.load());
  list.Gauge("twinserve:http_exchanges", "Requests in progress.", http.exchanges.load());
  list.Counter("twinserve:http_accepted", "Connections since the start.", http.accepted.load());
  list.Counter("twinserve:http_refused_connections", "Connections beyond the limit.",
               http.refused_connections.load());
  list.Counter("twinserve:http_refused_requests", "Requests refused before a route saw them.",
               http.refused_requests.load());
  list.Gauge("process_resident_memory_bytes", "Resident memory size in bytes.", ResidentBytes());
  list.Gauge("process_open_fds", "Number of open file descriptors.", OpenFiles());
  list.Counter("process_cpu_seconds", "Total user and system CPU time spent in seconds.",
               CpuSeconds());
  return list.Take();
}

}  // namespace twin::serve
