// Command-line options of the models that bench, profile and generate compute.
#pragma once

#include <CLI/CLI.hpp>

#include "core/model_options.h"
#include "run/real/measured_model.h"

namespace twin::apps {

void AddModelOptions(CLI::App& command, ModelOptions& options);

void AddMeasuredModelOptions(CLI::App& command, run::MeasuredModelOptions& options);

}  // namespace twin::apps
