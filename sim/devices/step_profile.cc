#include "sim/devices/step_profile.h"

#include <algorithm>
#include <array>
#include <optional>

namespace twin::sim {
namespace {

// Slow-down under sustained compute. Measured on the H100 in recorded steps; scaled for other
// devices by how much slower their isolated kernels get in calls of several milliseconds.
struct Heat {
  std::string_view hardware;
  StepTerm factor;
};
constexpr std::array kHeat = {
    Heat{"h100-sxm", {0.22, 0.12}}, Heat{"h200-sxm", {0.25, 0.3}},
    Heat{"l40s", {0.35, 0.4}},      Heat{"a100-80gb-sxm", {0.02, 1.0}},
    Heat{"a100-40gb", {0.02, 1.0}}, Heat{"rtx-pro-6000-server", {0.02, 1.0}},
    Heat{"cpu-generic", {0.0, 0.0}}};
constexpr StepTerm kUnknownHeat{0.1, 1.0};

// Waiting time of a step for a host that does not prepare it while the device works.
//
// V1, one step at a time: an estimate from the sum of vLLM's scheduler, input preparation and
// update (1.1 us a request in the last, vllm-project/vllm pull request 46112).
//
// V0: static batches of the LLM-Inference-Bench (A100, vLLM before 0.6, decode steps of 7B and 8B
// models on 1 to 4 GPUs) leave 1.5 to 1.9 ms a step and 75 to 95 us a request beyond the device
// time of this model. A server adds to the first: the request for comments on multi-step scheduling
// (vllm-project/vllm issue 6854) shows bubbles of 4 ms in its traces and names 5 to 13 ms. The
// second is output processing (3.4 ms for 32 requests, issue 6913), which 0.6 overlaps with the
// device; 30 us stay for the scheduler and the inputs.
//
// TGIS: recorded decode steps of Llama 7B (A100, H100) and 13B (H100) at 1 to 57 requests: 8.1 ms
// alone and 0.6 ms more for each request on the H100, of which the device takes 5.3 and 0.05.
//
// TensorRT-LLM: TTFT has a floor that depends neither on the prompt nor on the ranks, but on the
// layers: steps with prompts are not captured, and the host of its PyTorch backend launches them
// kernel by kernel. Published measurements of 4 users (less the boundary, no batch waiting):
// Llama-70B fp8 with 1,024 prompt tokens, 80 layers, 8 ranks, 1.1.0rc2: 53 ms (B200), of which the
// device needs about 25.
//
// twinserve: 160 requests on an H200 under orca, vllm_v0 and sarathi, which plan one step at a
// time: 0.06 ms to schedule, 0.09 to build, 0.06 to deliver (checks/gpu_check). The gaps
// between kernels come from `bench --kernel-times`: 0.5 ms in a step with prompts, none in a graph.
void SetEngine(StepEngine engine, StepTerms& terms) {
  switch (engine) {
    case StepEngine::kFromPolicy:
    case StepEngine::kV1Async:
      break;
    case StepEngine::kV1Sync:
      terms.host_s = {1.5e-3, 0.5};
      terms.host_per_item_s = {10e-6, 0.5};
      terms.hidden_gap_s = {0, 0};
      break;
    case StepEngine::kV0:
      terms.host_s = {3.0e-3, 0.5};
      terms.host_per_item_s = {30e-6, 0.7};
      terms.hidden_gap_s = {0, 0};
      break;
    case StepEngine::kTgis:
      terms.host_s = {2.3e-3, 0.3};
      terms.host_per_item_s = {550e-6, 0.25};
      terms.hidden_gap_s = {0, 0};
      terms.layer_launch_s = {150e-6, 0.5};
      terms.graph_gap_s = terms.eager_gap_s;  // it captures no graphs
      break;
    case StepEngine::kTwinserve:
      terms.host_s = {0.19e-3, 0.3};
      terms.host_per_item_s = {1e-6, 0.5};
      terms.hidden_gap_s = {0, 0};
      terms.graph_gap_s = {0.02e-3, 1.0};
      terms.eager_gap_s = {0.5e-3, 0.3};
      terms.layer_launch_s = {30e-6, 0.3};
      break;
    case StepEngine::kTrtllm:
      terms.layer_launch_s = {0.7e-3, 0.3};
      break;
    case StepEngine::kSglang:
      terms.layer_launch_s = {0.9e-3, 0.3};
      break;
  }
}

// The H100's terms, rounded. They predict the RTX PRO 6000, whose steps nobody fitted, better than
// the documented ones: TTFT -1.2 instead of +7.8 %, TPOT +0.5 instead of +4.3 %, throughput +0.2
// instead of -3.6 % (lss_vllm_bench/RTXPRO6000/Llama-3.1-8B).
StepProfile FittedElsewhere() {
  StepProfile profile;
  profile.compute_in_place = {0.915, 0.05};
  profile.graph_gap_s = {4e-5, 1.0};
  profile.eager_gap_s = {0.35e-3, 0.5};
  profile.hidden_gap_s = {1.5e-4, 0.5};
  return profile;
}

}  // namespace

StepTerms DocumentedStepTerms(std::string_view hardware, StepEngine engine) {
  StepTerms terms;
  const auto known = std::find_if(kHeat.begin(), kHeat.end(),
                                  [&](const Heat& h) { return h.hardware == hardware; });
  terms.heat_factor = known == kHeat.end() ? kUnknownHeat : known->factor;
  // Memory-bound work suffers from lower clocks in proportion.
  terms.decode_heat_factor = {terms.heat_factor.value * 0.16, 0.5};
  SetEngine(engine, terms);
  return terms;
}

StepTerms StepTermsFor(std::string_view hardware, StepEngine engine, const StepProfile& fitted) {
  StepTerms terms = DocumentedStepTerms(hardware, engine);
  const bool is_gpu = terms.heat_factor.value > 0;
  const StepProfile elsewhere = is_gpu ? FittedElsewhere() : StepProfile{};
  const bool launches_kernels = LaunchesKernels(engine);
  const bool same_host = IsRecordedEngine(engine) || launches_kernels;
  for (const StepTermField& field : kStepTermFields) {
    if (launches_kernels && field.value == &StepTerms::layer_launch_s) continue;
    const std::optional<StepTerm>& own = fitted.*field.fitted;
    const std::optional<StepTerm>& term = own ? own : elsewhere.*field.fitted;
    if (term && (same_host || !field.of_host)) terms.*field.value = *term;
  }
  return terms;
}

std::vector<std::uint32_t> CapturedSizes(std::uint32_t limit) {
  std::vector<std::uint32_t> sizes = {1, 2, 4};
  for (std::uint32_t size = 8; size < 256; size += 8) sizes.push_back(size);
  for (std::uint32_t size = 256; size <= limit; size += 16) sizes.push_back(size);
  while (!sizes.empty() && sizes.back() > limit) sizes.pop_back();
  return sizes;
}

}  // namespace twin::sim
