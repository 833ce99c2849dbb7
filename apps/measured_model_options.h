// Command-line options of the models that bench, profile and generate compute.
#pragma once

#include "apps/options.h"
#include "core/model_options.h"
#include "run/real/measured_model.h"

namespace twin::apps {

void AddModelOptions(CommandParser command, ModelOptions& options);

void AddMeasuredModelOptions(CommandParser command, run::MeasuredModelOptions& options);

}  // namespace twin::apps
