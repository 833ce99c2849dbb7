// Imports: profiles of devices from public databases of measurements.
#pragma once

#include <filesystem>

#include "run/run_control.h"

namespace twin::run {

// Makes profiles of devices from the tables of NVIDIA's aiconfigurator.
//
// `folder` holds tables as CSV, plain or gzip:
//   gemm_SYSTEM                                  becomes `out`/PRESET/gemm.textproto
//   moe_vllm_SYSTEM                              becomes `out`/PRESET/moe.textproto
//   context_ and generation_attention_SYSTEM     become  `out`/PRESET/attention.textproto
//   comm_SYSTEM                                  becomes `out`/PRESET/collectives.textproto
//   KIND_SYSTEM of operation_kinds.h             become  `out`/PRESET/operations.textproto
// for each SYSTEM that has a data sheet (PresetOfAiconfigurator in config/hardware_file.h). Tables
// of other systems are skipped with a warning. sim/devices/profiles/ ships the results. All files
// appear at the end, or none. Takes minutes of CPU time for a large database. Throws InputError
// with file, line and field, or if `folder` holds no such table, or two of a kind and device. Ends
// early as EndIfStopped() does.
void ImportAiconfigurator(const std::filesystem::path& folder, const std::filesystem::path& out,
                          RunControl& control);

// Makes profiles of devices from the layer profiles of LLMServingSim.
//
// `folder` holds profile_DEVICE_MODEL_dense.csv[.gz] (tp, layer, tokens, time_us) and, beside it,
// profile_DEVICE_MODEL_per_sequence.csv[.gz] (tp, layer, sequences, time_us), MODEL being the name
// of a model preset. The projections of a layer and the head become `out`/PRESET/gemm.textproto,
// for the devices rtx4090 and rtxpro6000. profile_DEVICE_MODEL_attention.csv[.gz]
// (layer_attention_import.h), if it is there, becomes `out`/PRESET/attention.textproto, with norms,
// rotary positions, activation, embedding and sampling from the first two. Other files are skipped,
// other devices and models with a warning. All files appear at the end, or none.
// Throws InputError with file, line and field, or if `folder` holds no such table, and ends early
// as EndIfStopped() does.
void ImportLlmServingSim(const std::filesystem::path& folder, const std::filesystem::path& out,
                         RunControl& control);

// Makes profiles of devices from the profiling tables of Vidur.
//
// `folder` holds one or more of these tables, plain or gzip:
//   dense_ops.csv   gpu, tp, n_embd, n_head, n_kv_head, ffn, gated, num_tokens, attn_pre_proj_us,
//                   attn_post_proj_us, mlp_up_proj_us, mlp_down_proj_us:
//                   `out`/PRESET/gemm.textproto
//   attention.csv   gpu, tp, n_q_head_total, n_kv_head_total, n_embd, batch_size, prefill_chunk,
//                   kv_cache_len, attn_prefill_us, attn_decode_us: `out`/PRESET/attention.textproto
//   network.csv     system, op (all_reduce, send_recv), num_workers, devices_per_node, bytes,
//                   latency_us: `out`/PRESET/collectives.textproto, of workers in one node
// Times are of kernels alone. PRESET is that of the device a100, h100, a30, or of the system
// a100_dgx, h100_dgx. Attention gets tables for each head dimension (n_embd / n_q_head_total).
// Skipped, with a warning that counts them: other devices, empty times, workers on several nodes,
// decodes without context, and, if there are several head dimensions, each one without prompts or
// without decodes.
// All files appear at the end, or none.
// Throws InputError with file, line and field, also for two devices of one preset in one table and
// for a repeated payload, or if `folder` holds none of the tables, and ends early as EndIfStopped()
// does.
void ImportVidur(const std::filesystem::path& folder, const std::filesystem::path& out,
                 RunControl& control);

}  // namespace twin::run
