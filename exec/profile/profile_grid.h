// Chooses the operations and whole steps that a profile measures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/profile/synthetic_steps.h"

namespace twin::exec {

// Range and density of the grid.
struct ProfileLimits {
  std::int32_t tokens_max = 2048;   // of one step
  std::int32_t context_max = 2048;  // of one sequence, its chunk included
  std::int64_t cache_tokens = 0;    // of all sequences of a step
  std::int32_t batch_max = 64;
  std::int32_t mixes = 72;
  bool coarse = false;  // every other size

  bool operator==(const ProfileLimits&) const = default;
};

struct ProfiledStep {
  std::string name;
  std::vector<StepItem> items;
};

// Sizes up to and including `largest`: 1, 2, 3, 4, 6, 8, 12, 16, ...; coarse: 1, 2, 4, 8, ...
std::vector<std::int64_t> GridSizes(std::int64_t largest, bool coarse);

// Chunks of one request over length and context.
std::vector<ProfiledStep> PrefillGrid(const ProfileLimits& limits);
// Decodes over batch and context, and batches of unequal contexts.
std::vector<ProfiledStep> DecodeGrid(const ProfileLimits& limits);
// Random mixes of decodes and chunks, named "mix N": equal limits give equal steps.
std::vector<ProfiledStep> MixedSteps(const ProfileLimits& limits);

}  // namespace twin::exec
