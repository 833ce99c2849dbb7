// Settings of one configuration of a recommendation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/dtype.h"
#include "core/model_spec.h"

namespace twin::run {

// How a replica divides its devices between attention and feed-forward networks (system.ffn).
struct FfnPoolSplit {
  std::int32_t attention_groups = 1;
  std::int32_t devices = 1;  // of the pool
  std::int32_t micro_batches = 1;

  bool operator==(const FfnPoolSplit&) const = default;
};

// Engines on the devices of a machine.
struct Layout {
  Parallelism parallelism = {};  // with `ffn`: of an attention group
  std::int32_t replicas = 1;
  // Number of replicas that only prefill; the remaining ones decode. 0: each replica does both.
  std::int32_t prefill_replicas = 0;

  std::optional<FfnPoolSplit> ffn = std::nullopt;

  // All devices: those of the pools, and all others.
  [[nodiscard]] std::int32_t devices() const { return own_devices() + pool_devices(); }
  [[nodiscard]] std::int32_t own_devices() const {
    return parallelism.devices() * (ffn ? ffn->attention_groups : 1) * replicas;
  }
  [[nodiscard]] std::int32_t pool_devices() const { return ffn ? ffn->devices * replicas : 0; }
  [[nodiscard]] std::int32_t decoding_engines() const { return replicas - prefill_replicas; }
  bool operator==(const Layout&) const = default;
};

// Settings by their names in OpenSettings. Unset: the server's default, or the server lacks it.
struct CandidateSettings {
  std::size_t model = 0;     // of the request
  std::size_t hardware = 0;  // of the request
  std::string server = {};
  Layout layout = {};
  // The format of all parts; unset: each part as the checkpoint stores it.
  std::optional<DType> weight_dtype = std::nullopt;
  std::optional<std::int64_t> max_num_seqs = std::nullopt;
  std::optional<std::int64_t> token_budget = std::nullopt;
  std::optional<double> gpu_memory_utilization = std::nullopt;
  std::optional<std::int64_t> max_batch_total_tokens = std::nullopt;
  std::optional<double> waiting_served_ratio = std::nullopt;
  std::optional<std::string> schedule_policy = std::nullopt;
  std::optional<std::string> context_chunking_policy = std::nullopt;

  bool operator==(const CandidateSettings&) const = default;
};

}  // namespace twin::run
