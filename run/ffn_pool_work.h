// The energy of a step's work on a replica whose feed-forward networks have devices of their own.
//
// The work of each part is that of sim/devices/device_work.h. Every micro-batch reads the weights
// of its layers again: attention's on each attention group, and on the FFN devices those of the
// experts that its rows reach. The head's weights are read once.
#pragma once

#include <cstdint>
#include <vector>

#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "sched/step_plan.h"
#include "sim/cost/ffn_pool_config.h"
#include "sim/devices/device_work.h"

namespace twin::run {

// Joules of the devices of each side, without base and idle power.
struct FfnPoolJoules {
  double attention = 0;
  double ffn = 0;
};

// Immutable. REQUIRES: sim::ValidateSplit() accepts, and the energy of both kinds of devices is
// known.
class FfnPoolWorkModel {
 public:
  FfnPoolWorkModel(const ModelSpec& model, const HardwareSpec& hardware,
                   const Parallelism& parallelism, const sim::FfnPoolConfig& ffn);

  // `decode_context_tokens` takes the place of the member of `totals`.
  [[nodiscard]] FfnPoolJoules Of(const StepTotals& totals,
                                 std::int64_t decode_context_tokens) const;

 private:
  struct Part {
    sim::DeviceWorkModel work;
    double rows_per_token = 1;  // on each of `devices`
    double devices = 1;
  };

  EnergySpec attention_energy_;
  EnergySpec ffn_energy_;
  std::int32_t attention_groups_;
  std::int32_t micro_batches_;
  sim::DeviceWorkModel attention_;
  double head_bytes_ = 0;  // of weights, on all ranks of a group
  std::vector<Part> parts_;
  FfnPoolJoules token_link_;  // of a token, between the two sides
};

}  // namespace twin::run
