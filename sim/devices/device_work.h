// The bytes and operations of a step on the devices of a replica: the causes of its energy.
//
// Weights are read once a step, those of experts as far as the step's tokens reach them, if each
// token chooses experts evenly. Attention reads the cache entries of its keys and writes those of
// its tokens; windows bound the keys. Products count two operations a number; formats that the
// device multiplies k times as fast as 16 bits count 1 / k. Activations are the inputs and outputs
// of products, in 16 bits.
#pragma once

#include <cstdint>
#include <vector>

#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "sched/step_plan.h"

namespace twin::sim {

// One step, summed over all devices of the replica.
struct DeviceWork {
  double bytes = 0;             // of weights and cache entries
  double flops = 0;             // at the rate of 16 bits
  double activation_bytes = 0;  // of layers without experts
  double routed_bytes = 0;      // of layers with experts
  double link_bytes = 0;        // sent to other devices

  bool operator==(const DeviceWork&) const = default;
};

// Joules of the work, without base and idle power.
double Joules(const EnergySpec& energy, const DeviceWork& work);

// Immutable; cost of a call: constant for each kind of layer.
class DeviceWorkModel {
 public:
  DeviceWorkModel(const ModelSpec& model, const HardwareSpec& hardware,
                  const Parallelism& parallelism);

  // `decode_context_tokens` takes the place of the member of `totals`.
  [[nodiscard]] DeviceWork WorkOfStep(const StepTotals& totals,
                                      std::int64_t decode_context_tokens) const;

 private:
  // Equal layers, of all stages.
  struct Kind {
    double layers = 0;
    double window = 0;            // keys that a query sees at most; 0 = all
    double entry_bytes = 0;       // cache entry of a token, of all ranks
    double state_bytes = 0;       // of a sequence, of all ranks
    double pair_flops = 0;        // of a query and a key: in chunks of prompts
    double decode_flops = 0;      // of a query and a key in decodes
    double token_flops = 0;       // products of a token, its experts included
    double activation_bytes = 0;  // of a token
    double expert_bytes = 0;      // of all experts
    double missed_share = 0;      // experts that a token does not choose, of all
  };

  [[nodiscard]] Kind KindOf(const ModelSpec& model, const HardwareSpec& hardware,
                            const Parallelism& parallelism, const LayerGroup& group) const;

  std::vector<Kind> kinds_;
  double weight_bytes_ = 0;      // without experts and without the embedding's rows
  double head_flops_ = 0;        // of a row of logits
  double token_link_bytes_ = 0;  // of a token, of all devices
};

}  // namespace twin::sim
