// How long a step of a transformer takes: its operations, the visible part of the host's time, and
// the state of the device.
//
//   symbol  field                          unit  meaning
//   C       StageTimes::operations         s     isolated, rested compute-bound operations:
//                                                products, experts and prefill attention
//   M       StageTimes::operations         s     all other operations; collectives are multiplied
//                                                by StepTerms::collective_in_place
//   gap     StageTimes::gap                s     host and launch time that shows
//   f       StepTerms::compute_in_place    1     time in a step / time of an isolated kernel
//   k       StepTerms::heat_factor         1     slow-down of C on a hot device
//   kd      StepTerms::decode_heat_factor  1     slow-down of M on a hot device
//   u       StepModel::ComputeShare()      1     how compute-bound the step is: 0 up to half as
//                                                many rows as the ridge of a product has (where it
//                                                computes as long as it reads weights), 1 from the
//                                                ridge on
//   E       DeviceState::heat              1     heat of the device, 0 to 1 (device_state.h)
//   Em      -                              1     mean of E over the step; E moves towards u
//   Et      StageOperations::MeasuredHeat  1     mean of E while a benchmark measured a product
//
//   rested device  gap + (1 + u (f - 1)) C + M
//   warm device    gap + (1 + u (f - 1)) C (1 + k(u) Em) + M (1 + kd Em),  k(u) = kd + u (k - kd)
//
// Benchmarks whose calls follow each other warm the device up, so the measured time of a product is
// divided by 1 + u k Et. Em depends on the step's time and the time on Em: three passes are made,
// which leave less than 0.1 %.
//
// gap: a step of a captured size replays a graph and shows graph_gap_s. If the step before took
// more than twice as long, it hides hidden_gap_s of this gap, and of the waits for the host between
// the step's operations. All other steps show eager_gap_s, decodes alone at least graph_gap_s, and
// take at least the time in which the host launches their layers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sched/step_plan.h"
#include "sim/cost/device_state.h"
#include "sim/devices/stage_cache.h"
#include "sim/devices/stage_operations.h"
#include "sim/devices/step_profile.h"

namespace twin::sim {

// Everything that a step model is made of.
struct StepModelConfig {
  StepTerms terms;
  OperationChoices operations;
  // Sizes of captured graphs, ascending; empty: none.
  std::vector<std::uint32_t> captured_sizes;
  // Steps with prompts, of captured sizes, replay graphs of the work between attention layers.
  bool captures_pieces = true;
  // The host launches layers kernel by kernel, so that layers of more kernels take longer
  // (layer_launches.h). Other engines compile layers, of whatever kind, into few launches.
  bool launches_kernels = false;
  // 0: the median prediction; otherwise one error for each class of operations and each term of
  // `terms` is drawn from this seed. Steps of a recorded model (step_profile.h) get one error
  // together instead, with prompts another than without; the errors of the classes come back as
  // steps exceed the recorded ones.
  std::uint64_t draw_seed = 0;
  bool mean_context = false;  // every decode of a batch has the mean context
  // Multiplies steps of recorded models by the recorded ratios (recorded_model.h).
  bool recorded_ratios = true;
  // The engine is the one whose steps were recorded: V1 with asynchronous scheduling.
  bool recorded_engine = true;
};

// Times of one stage in seconds.
struct StageTimes {
  ByOperation<double> operations{};  // on a rested device, in place
  double gap = 0;
  double clocks = 0;  // added by the device's state

  [[nodiscard]] double total() const {
    double sum = gap + clocks;
    for (const double seconds : operations) sum += seconds;
    return sum;
  }
};

// A step's total time and the interval that holds it with 90 %.
struct StepInterval {
  double seconds = 0;
  double low = 0;
  double high = 0;
};

// Thread-safe. Models of equal operations in one cache share what they computed (stage_cache.h).
class StepModel {
 public:
  // Operations without measurements in `device` follow from the data sheet. `stages` keeps what
  // models share, and may be destroyed before them; null: nothing is shared.
  StepModel(const StepModelConfig& config, const ModelSpec& model, const HardwareSpec& hardware,
            const Parallelism& parallelism, const DeviceProfile& device = {},
            StageCache* stages = nullptr);

  [[nodiscard]] int stages() const { return static_cast<int>(stages_->size()); }
  [[nodiscard]] bool SharesStages(const StepModel& other) const { return stages_ == other.stages_; }
  [[nodiscard]] const HeatMemory& memory() const { return heat_memory_; }
  [[nodiscard]] const StepTerms& terms() const { return terms_; }

  // Time of a stage that begins with this heat after a step of `last_step` seconds.
  // REQUIRES: the step has work.
  [[nodiscard]] StageTimes Times(const StepTotals& totals, int stage, double heat,
                                 double last_step) const;

  struct Known;
  // Reuses `known`: if only the contexts of the decodes changed since its last call, recomputes
  // their attention alone. REQUIRES: `known` is new, or was used for this stage alone.
  [[nodiscard]] StageTimes Times(const StepTotals& totals, int stage, double heat, double last_step,
                                 Known& known) const;

  // Times with other terms than the model's.
  [[nodiscard]] StageTimes TimesWith(const StepTerms& terms, const StepTotals& totals, int stage,
                                     double heat, double last_step) const;

  // All stages, with the spread of the operations and of the terms.
  [[nodiscard]] StepInterval Interval(const StepTotals& totals, double heat,
                                      double last_step) const;

  // log_sd of each class of operations in the first stage that has it.
  [[nodiscard]] ByOperation<double> Spread(const StepTotals& totals) const;

  // `u` of the formulas above.
  [[nodiscard]] double ComputeShare(const StepTotals& totals) const;

  // Sizes of the operations of a step, padding included.
  [[nodiscard]] StepLoad LoadOf(const StepTotals& totals) const;

  // True if the step is padded to a captured size and replayed whole.
  [[nodiscard]] bool ReplaysGraph(const StepTotals& totals) const;

 private:
  struct Shape {
    StepLoad load;
    bool graph = false;    // replayed whole
    bool pieces = false;   // between attention layers
    bool kernels = false;  // launched one by one
    double compute_share = 0;
  };

  [[nodiscard]] Shape ShapeOf(const StepTotals& totals) const;
  void SetDecodes(const StepTotals& totals, StepLoad& load) const;
  void Renew(const StepTotals& totals, int stage, Known& known) const;
  // Rows that the step computes in a captured size; 0 = in none.
  [[nodiscard]] std::int64_t CapturedRows(const StepTotals& totals) const;
  [[nodiscard]] double ShareOf(std::int64_t rows) const;
  [[nodiscard]] ByOperation<double> SecondsOf(const StageOperations& stage,
                                              const StepLoad& load) const;
  // Factor of the operations' times by recordings; fades to 1 as steps exceed the recorded ones.
  [[nodiscard]] double RecordedRatio(const StepLoad& load) const;
  // The drawn error of a recorded model's step. REQUIRES: recorded_.
  [[nodiscard]] double RecordedError(const StepLoad& load) const;
  // RecordedModel::OpenShare; 1 if no steps of the model were recorded.
  [[nodiscard]] double OpenShare(const StepLoad& load) const;
  static double Gap(const StepTerms& terms, const Shape& shape, const StageOperations& stage,
                    double operations, double last_step);
  // The times of the operations in a step on a rested device.
  static ByOperation<double> InPlace(const StepTerms& terms, const Shape& shape,
                                     const StageOperations& stage, ByOperation<double> seconds);
  static StageTimes Combine(const StepTerms& terms, const Shape& shape,
                            const StageOperations& stage, const ByOperation<double>& in_place,
                            double heat, double last_step);

  StepTerms terms_;
  HeatMemory heat_memory_;
  std::vector<std::uint32_t> captured_rows_;  // by rows up to the largest captured size
  double ridge_rows_;
  bool captures_pieces_;
  bool launches_kernels_;
  bool mean_context_;
  bool draws_errors_;
  ByOperation<double> errors_;  // standard normal variates
  double recorded_error_;       // a standard normal variate, too
  double recorded_prompt_error_;
  std::optional<RecordedModel> recorded_;
  std::shared_ptr<const PreparedStages> stages_;
};

// A step's operations, all but the attention of its decodes as long as only their context changes.
struct StepModel::Known {
  StepTotals totals{.prefill_tokens = -1};  // of no step
  Shape shape;
  double open_share = 0;  // of recorded models
  double ratio = 1;       // of recorded models
  ByOperation<double> in_place{};
  StageOperations::Batches batches;
  // For whoever rounds the times: the sum of all operations but the attention of decodes, times a
  // factor; negative: not known.
  double rounded_factor = -1;
  Duration rounded{0};
};

}  // namespace twin::sim
