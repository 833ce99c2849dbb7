// A cost model of deterministic dataflow machines (core/dataflow_spec.h): a step passes stages of
// devices, each of which holds some layers in its on-chip memory.
//
//   b   tokens of the step             P   devices of the stage
//   W   weights that the tokens use    R   bytes per second that a device moves into matrix units
//   w   bytes of a weight as moved     F   its flops per second, in the format of w
//
//   layer  max(W w / (P R), 2 W b / (P F))      move or multiply, whichever takes longer
//          + attention: the longer of both for the keys and values that are read, and 4 flops per
//          query, key
//            and number of a head
//          + 2 all-reduces of the hidden states, 3 with a split by context (link_topology.h)
//          + layer_overhead_s, and dispatch_s with experts
//   stage  its layers + one message to the next stage
//   head   the product, one hop to collect logits, one to return the token
//
// Experts move and multiply by themselves: those that the tokens touch, and the rows that they get.
// Divided by heads, the device with the most heads decides. A step occupies a stage only while it
// is there, so as many steps are in flight as there are stages, and the time of a token is the sum
// of all stages.
//
// Source of the rates: D. Abts et al., "Think Fast: A Tensor Streaming Processor (TSP) for
// Accelerating Deep Learning Workloads", ISCA 2020, and the paper of link_topology.h. Overheads of
// layers are fitted to public speeds (sim/devices/hardware/lpu-v1*.textproto).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/hardware_spec.h"
#include "core/model_spec.h"
#include "sim/cost/link_topology.h"
#include "sim/cost/step_cost.h"
#include "sim/cost/step_features.h"
#include "sim/cost/swap_cost.h"

namespace twin::sim {

// Seconds of a stage, by part of a step.
struct DataflowSeconds {
  double products = 0;
  double attention = 0;
  double links = 0;
  double overhead = 0;

  [[nodiscard]] double total() const { return products + attention + links + overhead; }
};

// Tokens that a device multiplies while it moves their weights: more of them take it longer.
// REQUIRES: hardware.dataflow.
std::int32_t FreeTokens(const HardwareSpec& hardware);

// The heads of the device of a stage that has most, over the mean; 1 if all have equal shares.
double HeadsUnevenness(KvSplit split, std::int64_t heads, std::int64_t devices);

// One stage of a model on a dataflow machine.
class DataflowStage {
 public:
  // REQUIRES: 0 <= stage < parallelism.pipeline, hardware.dataflow.
  DataflowStage(const ModelSpec& model, const HardwareSpec& hardware,
                const Parallelism& parallelism, std::int32_t stage);

  [[nodiscard]] DataflowSeconds Seconds(const StepTotals& totals) const;
  [[nodiscard]] std::int32_t devices() const { return devices_; }
  [[nodiscard]] std::int32_t layers() const { return layers_; }

 private:
  // Seconds = max(move_s, rows x multiply_s).
  struct Product {
    double move_s = 0;
    double multiply_s = 0;  // of one row

    [[nodiscard]] double Seconds(double rows) const {
      return rows * multiply_s > move_s ? rows * multiply_s : move_s;
    }
  };
  // Equal layers.
  struct Kind {
    double layers = 0;
    FeatureExtractor features;
    Product dense = {};
    Product expert = {};    // one of them
    double key_s = 0;       // to move the keys and values of a token
    double pair_s = 0;      // to multiply a query with a key and its value
    double sequence_s = 0;  // to read and write a state of fixed size
    double overhead_s = 0;
  };
  struct Rates;

  static Kind KindOf(const ModelSpec& model, const LayerGroup& group, const Rates& rates);

  std::int32_t devices_;
  std::int32_t layers_;
  std::vector<Kind> kinds_;
  AllReduceTime all_reduce_;
  double reduces_per_layer_ = 0;
  double row_bytes_ = 0;  // of a token's hidden state
  std::optional<Product> head_;
  double head_hops_s_ = 0;
  double send_latency_s_ = 0;
  double send_s_per_byte_ = 0;
};

// Exact for the equations above. A call computes each distinct stage once.
class DataflowCost final : public StepCost {
 public:
  // `kv_block_bytes` is one device's. Throws InputError (usage): a data sheet that is no dataflow
  // machine, a topology that does not hold the devices of a stage.
  DataflowCost(const ModelSpec& model, const HardwareSpec& hardware, const Parallelism& parallelism,
               std::int64_t kv_block_bytes);

  [[nodiscard]] int stages() const override { return static_cast<int>(stage_of_.size()); }
  [[nodiscard]] Duration HostTime(const StepPlan& /*plan*/) const override { return Duration{0}; }
  void DeviceTimes(const StepPlan& plan, std::span<Duration> stage_times) const override;
  [[nodiscard]] std::optional<StepParts> Parts(const StepPlan& plan) const override;

  // The distinct stages, in the order in which they first occur, and how many there are of each.
  struct Distinct {
    DataflowStage stage;
    std::int32_t count = 0;
  };
  [[nodiscard]] std::span<const Distinct> distinct() const { return distinct_; }

 private:
  std::vector<Distinct> distinct_;
  std::vector<std::uint32_t> stage_of_;  // index of each stage's kind
  SwapCost swap_;
};

}  // namespace twin::sim
