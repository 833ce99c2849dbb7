// Attention tables of a profile from measurements that others published.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/hardware_spec.h"
#include "sim/cost/operations/attention_profile.h"

namespace twin::lab {

// Pairs of heads to keep per table.
struct AttentionImportOptions {
  std::size_t main_rows = 20;  // bf16, head size 128, no window
  std::size_t base_rows = 8;   // other head sizes with many heads; with fewer lengths, as the next
  // All others, on top of a table of the first two kinds: with many heads, unless products are fp8;
  // with few; with fp8 products.
  std::size_t many_heads_rows = 7;
  std::size_t other_rows = 3;
  std::size_t fp8_products_rows = 2;
  // Its tables of the first two kinds are kept as they are. Null: none. Borrowed.
  const sim::AttentionProfile* kept = nullptr;
};

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
// InputError with file, line and field. Takes seconds.
AttentionImport ImportAttention(const HardwareSpec& hardware, sim::AttentionKind kind,
                                const std::string& path, const AttentionImportOptions& options,
                                sim::AttentionProfile& profile);

}  // namespace twin::lab
