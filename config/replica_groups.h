// Experiments whose replicas differ: one group as an experiment of its own, and back.
#pragma once

#include <cstddef>
#include <vector>

#include "config/experiment_config.h"

namespace twin {

// An experiment in which all replicas are like group `index`: lays the group's fields over system,
// policy and cost. The result has no groups, no disaggregation and no number of replicas.
// REQUIRES: asked.system().replica_groups_size() > index.
proto::Experiment MessageOfGroup(const proto::Experiment& asked, int index);

// Fills in `groups`, `replicas` and `disaggregation` of an experiment with groups. `of_groups`: the
// config of each group, from MessageOfGroup(). `system`: initially the first group's.
// Throws InputError (usage): roles without disaggregation or without one of its pools, groups that
// decode before groups that prefill, numbers of replicas that contradict the groups.
void FillGroups(const proto::Experiment& asked, const std::vector<ExperimentConfig>& of_groups,
                SystemConfig& system);

// Clears the fields of a resolved experiment that each of its groups holds itself.
void ClearSharedByGroups(proto::Experiment& message);

// A resolved experiment with the settings and the number of replicas of one of its groups, and the
// router that chooses among these replicas. Pools of disaggregation still cover all groups.
// REQUIRES: the group exists.
ExperimentConfig ConfigOfGroup(const ExperimentConfig& config, std::size_t index);

}  // namespace twin
