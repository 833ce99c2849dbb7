// The files of `twinserve generate`: prompts in, tokens and logits out, NDJSON both.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/generation.h"

namespace twin::apps {

// A line {"prompt": i, "token_ids": [...]}; other fields are passed over.
struct Prompt {
  std::int64_t number = 0;  // as the file calls it
  std::vector<std::int32_t> token_ids;
};

// What a model can take.
struct PromptLimits {
  std::int32_t vocab = 0;
  std::int32_t tokens_max = 0;
};

// Throws InputError (data), "FILE:LINE: ...", for a line that is no such object, a number given
// twice, an id outside the vocabulary, a prompt without tokens or with too many, a file without
// prompts or one that cannot be read.
std::vector<Prompt> ReadPrompts(const std::string& path, const PromptLimits& limits);

// One line {"prompt": i, "greedy": [...], "last_logits": [...], "all_logits": [[...]]}, the logits
// as far as they were kept, shortest digits that give back the same fp32; not a number: null.
std::string GenerationLine(std::int64_t number, const exec::Generation& generation,
                           exec::KeptLogits kept);

}  // namespace twin::apps
