// Settings of an experiment that are valid but hardly meant.
#pragma once

#include <string>
#include <vector>

#include "proto/experiment_config.h"
#include "sched/policy/policy.h"
#include "sim/memory/kv_capacity.h"

namespace twin::lab {

// One line per finding, without a line break, each with the field and the consequence. `traits` and
// `capacity` are those of the experiment. Draws lengths to estimate how many prompts are cut, which
// takes about a millisecond per class of requests. Throws InputError if a file of lengths is bad.
std::vector<std::string> WarningsOf(const ExperimentConfig& config, const PolicyTraits& traits,
                                    const sim::KvCapacity& capacity);

}  // namespace twin::lab
