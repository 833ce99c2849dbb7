// Generates tokens for a set of prompts: a policy decides, a device, or a grid of ranks, computes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/dtype.h"
#include "exec/device_model.h"
#include "exec/generate_world.h"
#include "sched/policy/policy_config.h"

namespace twin::exec {

struct GenerationOptions {
  PolicyConfig policy = DefaultPolicyConfig();
  KeptLogits keep = KeptLogits::kNone;
  bool stops_at_end_tokens = false;  // the model's; otherwise every output is of full length
  DType kv_dtype = DType::kFp32;
  std::int32_t block_size = 16;
  std::int32_t blocks = 0;       // of the KV cache; 0 = as many as all prompts take at once,
                                 // within memory_bytes_max
  std::int32_t host_blocks = 0;  // for policies that swap
  std::int64_t memory_bytes_max = std::int64_t{4} << 30;
  std::function<void()> on_step = {};  // called behind every step, if set
  // Where the policy speculates: as in ExecutorConfig.
  DeviceModel* draft_model = nullptr;
  NgramConfig ngram = {};
};

// Tokens of the longest prompt with its output, at least 1. No longer context is ever needed, so
// policies take it as the context length of the model.
std::int32_t LongestSequence(std::span<const Generation> generations);

// Fills output, log-probabilities and logits of each generation, as its sampling says. Outputs do
// not depend on the policy, its parameters, the number of blocks or the other generations: neither
// a row of the model nor the choice of a token depends on the batch around it.
// With the group of all ranks of the model's grid this is rank 0's call, and the others are in
// Follow() (grid_backend.h).
// REQUIRES: prompts of at least one token, tokens_max >= 1, tokens below vocab, sums of both within
// model.positions().
// Throws InputError where the policy rejects a prompt (data), or the KV cache is too small for one
// (usage), CommunicationError.
GenerationCounts Generate(DeviceModel& model, std::span<Generation> generations,
                          const GenerationOptions& options, Communicator* world = nullptr);

}  // namespace twin::exec
