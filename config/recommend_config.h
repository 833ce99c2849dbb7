// A request for a recommendation, as its file describes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/experiment_config.h"

namespace twin {

struct ServedModelConfig {
  std::string name;        // preset or path
  std::string checkpoint;  // empty: the name
};

// Devices for feed-forward networks. Without a name: some of the devices for attention.
struct OfferedFfnPoolConfig {
  std::string name;  // data sheet or path
  std::int32_t devices = 1;
  double price_per_hour = 0;  // for one device; 0: not given
};

struct OfferedHardwareConfig {
  std::string name;  // data sheet or path
  std::int32_t devices = 1;
  double price_per_hour = 0;  // for one device; 0: not given
  std::optional<OfferedFfnPoolConfig> ffn = std::nullopt;
};

// Values by setting; an empty list leaves the choice open.
struct OpenSettingsConfig {
  std::vector<std::string> server;
  std::vector<std::uint32_t> tensor_parallel;
  std::vector<std::uint32_t> pipeline_parallel;
  std::vector<std::uint32_t> replicas;
  std::vector<std::uint32_t> prefill_replicas;
  std::vector<std::uint32_t> token_budget;
  std::vector<std::uint32_t> max_num_seqs;
  std::vector<double> gpu_memory_utilization;
  std::vector<std::string> weight_dtype;
  std::vector<std::uint32_t> max_batch_total_tokens;
  std::vector<double> waiting_served_ratio;
  std::vector<std::string> schedule_policy;
  std::vector<std::string> context_chunking_policy;
  std::vector<std::uint32_t> attention_groups;
  std::vector<std::uint32_t> ffn_devices;
  std::vector<std::uint32_t> micro_batches;
};

struct RecommendConfig {
  enum class Objective : std::uint8_t { kGoodput, kCost, kLatency, kUsers, kFleet, kEnergy };

  std::vector<ServedModelConfig> models;
  std::vector<OfferedHardwareConfig> hardware;
  std::string until;  // empty: only the bounds that slo implies
  bool has_slo = false;
  Objective objective = Objective::kGoodput;
  std::string latency_metric = "mean_e2el_ms";
  OpenSettingsConfig settings;
  std::int32_t max_model_len = 0;  // 0: that of the load
  std::int64_t requests = 0;       // 0: by the size of the KV cache
  std::uint32_t replications = 10;
  double tolerance = 0.01;
  std::uint64_t seed = 0;
  std::vector<std::string> set;

  std::string source;  // the file, for errors
  // An experiment with the workload and the objective for requests, without a system.
  std::optional<ExperimentTemplate> experiment;
};

// Reads and validates a request file; models and data sheets are not read yet. Throws InputError
// (usage) with the file, the line and column or the field, what is wrong, what is allowed.
RecommendConfig ReadRecommendation(const std::filesystem::path& path);

// Reads and validates a text; errors name `source`, and relative paths start at `folder`.
RecommendConfig ParseRecommendation(const std::string& text, const std::string& source,
                                    const std::filesystem::path& folder);

}  // namespace twin
