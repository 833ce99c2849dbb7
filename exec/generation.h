// Generates the outputs of a set of prompts: a policy decides, and a device or a grid of ranks
// computes.
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
  bool stops_at_end_tokens = false;  // of the model; if false, every output has its full length
  DType kv_dtype = DType::kFp32;
  std::int32_t block_size = 16;
  std::int32_t blocks = 0;       // of the KV cache; 0 = enough for all prompts at once,
                                 // within memory_bytes_max
  std::int32_t host_blocks = 0;  // for policies that swap
  std::int64_t memory_bytes_max = std::int64_t{4} << 30;
  std::function<void()> on_step = {};  // called after every step, if set
  // For policies that speculate; see ExecutorConfig.
  DeviceModel* draft_model = nullptr;
  NgramConfig ngram = {};
};

// Tokens of the longest prompt with its output, at least 1. No request needs a longer context, so
// this is the context length of the model for policies.
std::int32_t LongestSequence(std::span<const Generation> generations);

// Fills output, log-probabilities and logits of each generation, sampled with its parameters.
// Outputs do not depend on the policy, its parameters, the number of blocks or the other
// generations: neither a row of the model nor the choice of a token depends on the batch around it.
// If `world` is given, it is the group of all ranks of the model's grid; rank 0 makes this call
// while all other ranks are in Follow() (grid_backend.h).
// REQUIRES: prompts of at least one token, tokens_max >= 1, tokens below vocab, prompt + tokens_max
// within model.positions().
// Throws InputError if the policy rejects a prompt (data) or the KV cache is too small for one
// (usage), and CommunicationError.
GenerationCounts Generate(DeviceModel& model, std::span<Generation> generations,
                          const GenerationOptions& options, Communicator* world = nullptr);

}  // namespace twin::exec
