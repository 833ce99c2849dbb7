// The bottleneck of a run, and what to change.
#pragma once

#include <string>

#include "config/experiment_config.h"
#include "run/record/summary.h"

namespace twin::apps {

struct Advice {
  std::string bottleneck;
  std::string next;  // what to try
};

// The first of these that the summary shows: more load than the system serves, lost requests, a
// full KV cache, the limit of sequences, the token budget, prompts between decodes; or none.
// `experiment_file` is named where a command reads it.
Advice AdviceOn(const ExperimentConfig& config, const Summary& summary,
                const std::string& experiment_file);

}  // namespace twin::apps
