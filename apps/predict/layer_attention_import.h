// Attention tables of a profile from calls that held a prompt chunk, decodes, or both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/hardware_spec.h"
#include "run/run_control.h"
#include "sim/devices/operations/attention_profile.h"

namespace twin::run {

// One measured call of one layer on one rank, bf16.
struct LayerCall {
  std::int32_t query_heads = 0;
  std::int32_t kv_heads = 0;
  std::uint32_t chunk = 0;    // tokens of one prompt; 0 = none
  std::uint32_t past = 0;     // keys before them
  std::uint32_t decodes = 0;  // requests with one token each
  std::uint32_t context = 0;  // keys of each
  double microseconds = 0;
};

struct LayerAttentionImport {
  sim::AttentionProfile profile;
  // Per table its rows and errors (median / p90) of the closed form and of heads left out, and the
  // errors of calls that held both kinds.
  std::vector<std::string> report;
};

// Calls of one kind become tables; of repeated calls the last counts. Chunks after a context shape
// the closed form. Calls of both kinds say whether the kernel packs heads, shape the closed form if
// it does not, and give the factor on their decodes: all by least mean absolute logarithm. Throws
// InputError(`source`) without calls of chunks alone or of decodes alone, or if query heads are no
// multiple of KV heads, and ends early as EndIfStopped() does.
LayerAttentionImport ImportLayerAttention(const HardwareSpec& hardware, std::int32_t head_dim,
                                          const std::vector<LayerCall>& calls,
                                          const std::string& source, const RunControl& control);

}  // namespace twin::run
