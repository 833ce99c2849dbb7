// The NDJSON files of `twinserve generate`: prompts, and generated tokens with logits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/generation.h"

namespace twin::apps {

// A line {"prompt": i, "token_ids": [...]}; other fields are ignored.
struct Prompt {
  std::int64_t number = 0;  // "prompt" in the file
  std::vector<std::int32_t> token_ids;
};

// The prompts that a model accepts.
struct PromptLimits {
  std::int32_t vocab = 0;
  std::int32_t tokens_max = 0;
};

// Throws InputError (data), "FILE:LINE: ...", if the file cannot be read or has no prompts, or if a
// line is not such an object, repeats a number, or has no tokens, too many tokens or a token
// outside the vocabulary.
std::vector<Prompt> ReadPrompts(const std::string& path, const PromptLimits& limits);

// One line {"prompt": i, "greedy": [...], "last_logits": [...], "all_logits": [[...]]} with the
// logits that were kept, in the shortest digits that read back as the same fp32; NaN and infinity
// are null. If the temperature is not 0, "sampled" replaces "greedy". If asked for, "logprobs" has
// for each token a list of [token, log-probability]: its own, then alternatives.
std::string GenerationLine(std::int64_t number, const exec::Generation& generation,
                           exec::KeptLogits kept);

}  // namespace twin::apps
