// Experiments whose replicas differ: one group as an experiment of its own, and back.
#pragma once

#include <cstddef>
#include <vector>

#include "config/experiment_config.h"

namespace twin {

// The experiment whose replicas are all as those of group `index`: what the group sets is laid over
// the system, the policy and the cost. Has no groups, no disaggregation and no number of replicas.
// REQUIRES: asked.system().replica_groups_size() > index.
proto::Experiment MessageOfGroup(const proto::Experiment& asked, int index);

// Fills in `groups`, `replicas` and `disaggregation` of an experiment with groups. `of_groups`:
// what MessageOfGroup() became, by group; `system` is that of the first one.
// Throws InputError (usage): roles without disaggregation or without one of its pools, groups that
// decode before groups that prefill, numbers of replicas that contradict the groups.
void FillGroups(const proto::Experiment& asked, const std::vector<ExperimentConfig>& of_groups,
                SystemConfig& system);

// Removes from the message of a resolved experiment with groups what each group holds itself.
void ClearSharedByGroups(proto::Experiment& message);

// A resolved experiment with the settings of one of its groups, that many replicas, and the router
// that chooses among them. Pools of disaggregation stay those of all groups. REQUIRES: the group
// exists.
ExperimentConfig ConfigOfGroup(const ExperimentConfig& config, std::size_t index);

}  // namespace twin
