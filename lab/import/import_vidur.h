// Makes profiles of devices from the profiling tables of Vidur.
#pragma once

#include <filesystem>

#include "lab/run_control.h"

namespace twin::lab {

// `folder` holds one or more of these tables, plain or gzip:
//   dense_ops.csv   gpu, tp, n_embd, n_head, n_kv_head, ffn, gated, num_tokens, attn_pre_proj_us,
//                   attn_post_proj_us, mlp_up_proj_us, mlp_down_proj_us:
//                   `out`/PRESET/gemm.textproto
//   attention.csv   gpu, tp, n_q_head_total, n_kv_head_total, n_embd, batch_size, prefill_chunk,
//                   kv_cache_len, attn_prefill_us, attn_decode_us: `out`/PRESET/attention.textproto
//   network.csv     system, op (all_reduce, send_recv), num_workers, devices_per_node, bytes,
//                   latency_us: `out`/PRESET/collectives.textproto, of workers in one node
// Times are of kernels alone; empty ones are left out. PRESET is that of the device a100, h100,
// a30, or of the system a100_dgx, h100_dgx; others are skipped with a warning. Throws InputError
// with file, line and field, or if `folder` holds none of the tables.
void ImportVidur(const std::filesystem::path& folder, const std::filesystem::path& out,
                 RunControl& control);

}  // namespace twin::lab
