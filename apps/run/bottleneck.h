// The bottleneck of a run, and the changes that could help.
#pragma once

#include <string>
#include <vector>

#include "apps/experiment_options/setting_change.h"
#include "config/experiment_config.h"
#include "run/record/summary.h"

namespace twin::apps {

struct Bottleneck {
  std::string text;
  std::string metric;  // the key in summary.json that a change should improve
  // Whether the summary alone shows it. Otherwise it is one only if a change helps.
  bool is_certain = true;
  std::vector<ProposedChange> changes;  // that could help; not tried
};

// The bottlenecks that the summary shows, the decisive one first: more load than the system serves,
// lost requests, a full KV cache, the limit of sequences, the token budget, prompts between
// decodes. Empty: nothing waits. `write` writes the changes; null: none are wanted, which leaves
// out bottlenecks that are not certain.
std::vector<Bottleneck> BottlenecksOf(const ExperimentConfig& config, const Summary& summary,
                                      const ChangeWriter* write);

// Twice the load, to find out how much more fits; no fields for a load that cannot be doubled.
ProposedChange TwiceTheLoad(const ExperimentConfig& config, bool has_options);

// Outputs of a closed loop that mix users who are in step (traces/mixed_outputs.h); nullopt for
// other loads.
std::optional<ProposedChange> MixedOutputs(const ExperimentConfig& config, bool has_options);

// The command that finds the largest load; empty for a load that has no rate. `experiment_file` is
// what it reads.
std::string CapacityCommand(const ExperimentConfig& config, const std::string& experiment_file);

}  // namespace twin::apps
