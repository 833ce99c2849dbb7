// Names of the engines that prepare steps, and of kernels that they may be told to run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/field_binding.h"
#include "sim/devices/operations/kernel_library.h"
#include "sim/devices/step_profile.h"

namespace twin {

inline constexpr EnumNames<sim::StepEngine> kStepEngineNames = {
    {"from_policy", sim::StepEngine::kFromPolicy},
    {"v1_async", sim::StepEngine::kV1Async},
    {"v1_sync", sim::StepEngine::kV1Sync},
    {"v0", sim::StepEngine::kV0},
    {"tgis", sim::StepEngine::kTgis},
    {"twinserve", sim::StepEngine::kTwinserve},
    {"trtllm", sim::StepEngine::kTrtllm},
    {"sglang", sim::StepEngine::kSglang}};

inline constexpr EnumNames<sim::ExpertsKernel> kExpertsKernelNames = {
    {"any", sim::ExpertsKernel::kAny},
    {"cutlass", sim::ExpertsKernel::kCutlass},
    {"deepgemm", sim::ExpertsKernel::kDeepGemm},
    {"triton", sim::ExpertsKernel::kTriton},
    {"trtllm_gen", sim::ExpertsKernel::kTrtllmGen}};

// All names but from_policy, for callers without a policy.
inline std::vector<std::pair<std::string, sim::StepEngine>> StepEnginesWithoutPolicy() {
  std::vector<std::pair<std::string, sim::StepEngine>> words;
  for (const auto& [name, engine] : kStepEngineNames) {
    if (engine != sim::StepEngine::kFromPolicy) words.emplace_back(name, engine);
  }
  return words;
}

}  // namespace twin
