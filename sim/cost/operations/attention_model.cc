#include "sim/cost/operations/attention_model.h"

#include <algorithm>
#include <cmath>

namespace twin::sim {

AttentionModel::AttentionModel(const HardwareSpec& hardware, const AttentionHeads& heads,
                               KernelLibrary library)
    : hardware_(hardware), heads_(heads), library_(library) {}

Estimate AttentionModel::operator()(const ContextAttention& work) const {
  if (work.chunks == 0) return {};
  const double width = static_cast<double>(heads_.query_heads) * heads_.head_dim;
  const double kv_bytes =
      2.0 * heads_.kv_heads * heads_.head_dim * static_cast<double>(ByteSize(heads_.kv_dtype));
  const double compute =
      4 * width * work.pairs / (hardware_.peak_bf16_flops * hardware_.attention_flops_fraction);
  const double memory =
      (4 * width * work.tokens + kv_bytes * work.context_tokens) /
      (hardware_.memory_bandwidth_bytes_per_s * hardware_.attention_bandwidth_fraction);
  return {std::max(compute, memory) + hardware_.attention_latency_s, 0.3};
}

Estimate AttentionModel::operator()(const GenerationAttention& work) const {
  if (work.requests == 0) return {};
  const double kv_bytes =
      2.0 * heads_.kv_heads * heads_.head_dim * static_cast<double>(ByteSize(heads_.kv_dtype));
  const double memory =
      kv_bytes * work.context_tokens /
      (hardware_.memory_bandwidth_bytes_per_s * hardware_.attention_bandwidth_fraction);
  return {
      memory + hardware_.attention_latency_s + hardware_.attention_per_request_s * work.requests,
      0.2};
}

Estimate AttentionModel::operator()(const ContextAttention& chunks,
                                    const GenerationAttention& decodes) const {
  const Estimate first = (*this)(chunks);
  const Estimate second = (*this)(decodes);
  const double seconds = first.seconds + second.seconds;
  if (seconds == 0) return {};
  const double sd = std::hypot(first.seconds * first.log_sd, second.seconds * second.log_sd);
  return {seconds, sd / seconds};
}

}  // namespace twin::sim
