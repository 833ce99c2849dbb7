// Command-line options of the models that bench, profile and generate compute.
#pragma once

#include <optional>

#include <CLI/CLI.hpp>

#include "run/real/measured_model.h"

namespace twin::apps {

void AddAccumulationOption(CLI::App& command, bool& fp8_fast_accumulation);

void AddAttentionOption(CLI::App& command,
                        std::optional<kernels::cuda::AttentionKernel>& attention);

void AddMeasuredModelOptions(CLI::App& command, run::MeasuredModelOptions& options);

}  // namespace twin::apps
