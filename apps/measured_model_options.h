// Command-line options of the model that bench and profile measure.
#pragma once

#include <CLI/CLI.hpp>

#include "lab/profile/measured_model.h"

namespace twin::apps {

void AddMeasuredModelOptions(CLI::App& command, lab::MeasuredModelOptions& options);

}  // namespace twin::apps
