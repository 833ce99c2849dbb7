// Checks of an experiment from options, with the options that help where it cannot start.
#pragma once

#include <cstdint>
#include <string>

#include "config/experiment_config.h"
#include "core/model_spec.h"

namespace twin::apps {

// All functions throw InputError (usage) at `where`.

// Refuses a number of ranks that does not divide the model, and lists those that do.
void RequireDivision(const std::string& where, const ModelSpec& model, std::int64_t ranks);

// Refuses a system whose memory does not hold the model and its longest request, with the numbers
// of ranks that would, and the requests that fit with fewer. Resolves `made` once for each number
// of ranks. `config` is `made` as it stands.
void RequireFit(const ExperimentTemplate& made, const ExperimentConfig& config,
                const std::string& where);

// Refuses drawn requests of a fixed or uniform length that are all too long for the system, or
// some of them.
void RequireShortRequests(const ExperimentConfig& config, const std::string& where);

}  // namespace twin::apps
