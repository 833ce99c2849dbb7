// Measures how long operations, whole steps and the host take on this machine, for FitProfile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "core/dtype.h"
#include "run/real/measured_model.h"
#include "run/run_control.h"

namespace twin::run {

struct ProfileRequest {
  MeasuredModelOptions model;
  DType weight_dtype = DType::kFp32;
  DType kv_dtype = DType::kFp32;
  std::filesystem::path out;  // the profile, a CSV file; an existing one is continued
  bool quick = false;         // a coarse grid that takes about a minute
  // Largest step in tokens, longest sequence, most requests of a step. Unset: the limits in an
  // existing file, or defaults for the device.
  std::optional<std::int32_t> tokens_max;
  std::optional<std::int32_t> context_max;
  std::optional<std::int32_t> batch_max;
  std::int32_t block_size = 16;  // tokens per KV block
  std::int32_t rounds = 3;       // repeats of every measurement
  // Stop after this round, counted from 1; a later call continues. Lets the rounds alternate with
  // other work, so that both meet the same minutes of a shared machine.
  std::optional<std::int32_t> until_round;
};

struct ProfileOutcome {
  bool complete = false;     // all rounds are in the file
  bool interrupted = false;  // `control` ended it early; the same call continues
  bool continued = false;    // the file existed
  std::uint64_t measured = 0;
  std::int32_t tokens_max = 0;  // largest step that was measured
};

// Runs every measurement that `request.out` lacks through the real executor, in several rounds of
// shuffled order, and appends each to the file as it is made.
// Throws InputError (usage): options that contradict the existing file, no room for the model;
// (data): a damaged model or file, a missing device; std::bad_alloc, kernels::cuda::DeviceError.
ProfileOutcome MeasureProfile(const ProfileRequest& request, RunControl& control);

}  // namespace twin::run
