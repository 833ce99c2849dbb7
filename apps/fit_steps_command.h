// The part of `twinserve fit` that fits the terms of the step model.
#pragma once

#include <string>

#include "sim/devices/step_profile.h"

namespace twin::apps {

struct FitStepsArguments {
  std::string sets;      // the list of tables
  std::string data;      // folder that the paths in `sets` start at
  std::string hardware;  // the device of all sets
  std::string profile;   // a folder that replaces the device's built-in profile
  sim::StepEngine engine = sim::StepEngine::kV1Async;
  std::string out;  // steps.textproto
};

// Prints the terms, how well the data determines each, and the errors of all sets.
void FitSteps(const FitStepsArguments& arguments);

}  // namespace twin::apps
