// Fits the terms of the step model to recorded steps.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "apps/predict/step_table.h"
#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "run/run_control.h"
#include "sim/devices/operations/device_profile.h"
#include "sim/devices/profile_config.h"

namespace twin::run {

// Use of a table of steps.
enum class StepUse : std::uint8_t {
  kFit,     // the terms, and then the ratios of its model (recorded_model.h)
  kRatios,  // the ratios of its model alone
  kJudge,   // its errors
};
constexpr std::array<std::string_view, 3> kStepUseNames = {"fit", "ratios", "judge"};

// A table of steps (step_table.h) with iter_us, of one model on devices of one kind.
struct StepSet {
  std::string name;  // the file, without folder and extension
  std::filesystem::path file;
  ModelSpec model;
  std::int32_t tensor = 1;
  StepUse use = StepUse::kFit;
};

// Reads a list of sets: a CSV file with columns file (relative to `data`), model, tensor, and use
// (kStepUseNames). Throws InputError with file, line and field.
std::vector<StepSet> ReadStepSets(const std::string& list, const std::filesystem::path& data);

struct FittedTerm {
  std::string name;
  sim::StepTerm prior;
  sim::StepTerm fitted;
  double identified = 0;  // 1 - variance with data / without: 0 = the data tells nothing
  // The term that it trades off with most, and their correlation.
  std::string partner;
  double correlation = 0;
};

// Errors of steps of one kind in one set: relative, predicted / measured - 1.
struct StepErrorRow {
  std::string set;
  StepUse use = StepUse::kFit;
  std::string kind;
  std::int64_t steps = 0;
  double median = 0;  // of the absolute error
  double p90 = 0;     // of the absolute error
  double bias = 0;    // median of the signed error
};

struct StepFit {
  sim::StepProfile profile;
  std::vector<FittedTerm> terms;
  std::vector<StepErrorRow> errors;
};

// Starts from the documented terms of `engine`, which are the prior. Steps of one kind of a set
// count as at most 400 independent ones, as their errors are not independent.
StepFit FitSteps(const std::vector<StepSet>& sets, const HardwareSpec& hardware,
                 sim::StepEngine engine, const sim::DeviceProfile& device, RunControl& control);

}  // namespace twin::run
