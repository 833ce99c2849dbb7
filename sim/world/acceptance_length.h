// Acceptance lengths: how many tokens a step of speculative decoding yields for a request on
// average, its own token included.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sched/policy/speculation.h"

namespace twin::sim {

// The rate a with (1 - a^(k+1)) / (1 - a) = `length`: with it, each of k = `drafts` drafts is
// accepted if all before it are (arXiv:2211.17192, eq. 1).
// REQUIRES: 1 <= length <= drafts + 1, drafts >= 1.
double AcceptanceRateOf(double length, std::int32_t drafts);

// The length that was measured for a model and its proposer with `drafts` drafts a step: answers
// that include reasoning, to the coding prompts of SPEED-Bench. nullopt if none was.
// Source: published by InferenceX as targets for servers of the model, read in 2026.
std::optional<double> MeasuredAcceptanceLength(std::string_view model, SpecMethod method,
                                               std::int32_t drafts);

// The models with measured lengths for the method, separated by commas.
std::string ModelsWithAcceptanceLengths(SpecMethod method);

}  // namespace twin::sim
