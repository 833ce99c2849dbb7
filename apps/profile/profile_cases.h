// The measurements of a profile, as a list of functions to call.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "apps/profile/profile_measurements.h"
#include "exec/device_model.h"
#include "exec/profile/operations.h"
#include "exec/profile/profile_grid.h"
#include "exec/profile/spread.h"
#include "exec/profile/synthetic_steps.h"

namespace twin::run {

// One measurement. `keys` are the keys of the rows that `measure` returns.
struct ProfileCase {
  std::vector<std::string> keys;
  std::function<std::vector<ProfileRow>()> measure;
};

// The settings of the synthetic steps that a profile with these limits measures.
exec::SyntheticStepsConfig StepsConfigOf(const ModelSpec& model, std::int32_t block_size,
                                         const exec::ProfileLimits& limits);

// Borrowed by the cases; all null if only their keys are needed.
struct ProfileBench {
  exec::Operations* operations = nullptr;
  exec::SyntheticSteps* steps = nullptr;
  exec::DeviceModel* model = nullptr;
  std::filesystem::path scratch;  // an unused name for the run directory of host measurements
};

// All cases: operations alone, whole steps, and the host.
std::vector<ProfileCase> ProfileCases(const ProfileHeader& header, const exec::RepeatRule& rule,
                                      const ProfileBench& bench);

}  // namespace twin::run
