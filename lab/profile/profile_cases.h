// Everything that a profile measures, as a list of things to call.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "exec/device_model.h"
#include "exec/profile/operations.h"
#include "exec/profile/profile_grid.h"
#include "exec/profile/spread.h"
#include "exec/profile/synthetic_steps.h"
#include "lab/profile/profile_file.h"

namespace twin::lab {

// One thing to measure. `keys` are those of the rows that `measure` returns.
struct ProfileCase {
  std::vector<std::string> keys;
  std::function<std::vector<ProfileRow>()> measure;
};

// The steps that a profile of the model measures within such limits.
exec::SyntheticStepsConfig StepsConfigOf(const ModelSpec& model, std::int32_t block_size,
                                         const exec::ProfileLimits& limits);

// What cases borrow; all null where they are made for their keys alone.
struct ProfileBench {
  exec::Operations* operations = nullptr;
  exec::SyntheticSteps* steps = nullptr;
  exec::DeviceModel* model = nullptr;
  std::filesystem::path scratch;  // a free name: where measuring the host writes what runs write
};

// Operations alone, whole steps, and the host.
std::vector<ProfileCase> ProfileCases(const ProfileHeader& header, const exec::RepeatRule& rule,
                                      const ProfileBench& bench);

}  // namespace twin::lab
