// Defaults that follow from the model, from a list of stages, and from the data sheet of a dataflow
// machine.
#pragma once

#include "config/experiment_config.h"

namespace twin {

namespace proto {
class Experiment;
class System;
}  // namespace proto

// Makes the number of stages that of the list, if there is one. Throws InputError (usage) if
// `message` also has devices for all stages.
void CountStages(const proto::System& message, Parallelism& parallelism);

// Fills in the slots of the policy ship, one for each stage, and the tokens that a stage of the
// machine multiplies while it moves weights. `system` holds the specs that model and hardware name.
void FillShip(SystemConfig system, proto::Experiment& message);

// Sets the parameter max_model_len of a scheduler of a release (policy.own.engine), if it is open,
// to the model's, as the release's server does. `system` as for FillShip().
void FillEngineContext(SystemConfig system, proto::Experiment& message);

// Makes memory rule and cost model those of a dataflow machine, if the system has one.
void SetMachineDefaults(ExperimentConfig& config);

}  // namespace twin
