// Attention tables of a profile from published measurements.
#pragma once

#include <string>
#include <vector>

#include "core/hardware_spec.h"
#include "run/run_control.h"
#include "sim/devices/operations/attention_profile.h"

namespace twin::run {

struct AttentionImport {
  // One line per table: kind, library, formats of the products and of the cache, head_dim, window,
  // rows, and errors in % (median/p90) of the closed form and of heads left out.
  std::vector<std::string> report;
  // One line for each table whose ratios to the closed form do not all fit into it.
  std::vector<std::string> warnings;
  std::vector<std::string> versions;  // "vllm 0.24.0", in the order of the file
};

// Adds the tables of a file to `profile`. Reads a file of aiconfigurator's, context_attention_*.csv
// or generation_attention_*.csv, plain or gzip, with the columns backend, version, attn_dtype,
// kv_dtype, num_heads, num_kv_heads, head_dim, window, batch, seq_len or kv_len, latency_us. Throws
// InputError with file, line and field, and ends early as EndIfStopped() does. Takes seconds.
AttentionImport ImportAttention(const HardwareSpec& hardware, sim::AttentionKind kind,
                                const std::string& path, sim::AttentionProfile& profile,
                                const RunControl& control);

}  // namespace twin::run
