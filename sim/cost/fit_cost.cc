#include "sim/cost/fit_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <Eigen/Core>

#include "core/input_error.h"
#include "core/statistics.h"
#include "sched/computed_rows.h"
#include "sim/cost/cost_table.h"
#include "sim/cost/fitted_cost.h"
#include "sim/cost/least_squares.h"
#include "sim/cost/step_features.h"

namespace twin::sim {
namespace {

constexpr std::size_t kFewestSteps = 8;

[[noreturn]] void Refuse(const std::string& what) {
  throw InputError(InputError::Kind::kData, "", what);
}

double At(const StepFeatures& x, Feature feature) { return x[static_cast<std::size_t>(feature)]; }

// Rows of a linear problem. Rows without time are left out: they have no relative error.
class Problem {
 public:
  explicit Problem(Eigen::Index columns) : columns_(columns) {}

  void Add(std::initializer_list<double> features, double seconds) {
    if (!(seconds > 0)) return;
    rows_.insert(rows_.end(), features);
    times_.push_back(seconds);
  }
  [[nodiscard]] std::size_t size() const { return times_.size(); }

  // All 0 if there are no rows.
  [[nodiscard]] Eigen::VectorXd Solve() const {
    if (times_.empty()) return Eigen::VectorXd::Zero(columns_);
    const auto rows = static_cast<Eigen::Index>(times_.size());
    using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const Eigen::MatrixXd a = Eigen::Map<const RowMajor>(rows_.data(), rows, columns_);
    return RelativeFit(a, Eigen::Map<const Eigen::VectorXd>(times_.data(), rows));
  }

 private:
  Eigen::Index columns_;
  std::vector<double> rows_;
  std::vector<double> times_;
};

double PartOf(const StepSample& step, StepPart part) {
  return step.seconds[static_cast<std::size_t>(part)];
}

double Items(const StepTotals& totals) {
  return static_cast<double>(totals.prefill_items + totals.decode_items);
}

struct PhaseFactors {
  double decode = 0;
  double prefill = 0;
  double base_s = 0;
};

// Fits a part of whole steps to its time measured alone, with one factor per phase.
class PhaseProblem {
 public:
  explicit PhaseProblem(std::string part) : part_(std::move(part)) {}

  void Add(double decode, double prefill, double seconds) {
    each_.Add({decode, prefill, 1}, seconds);
    both_.Add({decode + prefill, 1}, seconds);
    if (!(seconds > 0)) return;
    has_decodes_ = has_decodes_ || decode > 0;
    has_prefill_ = has_prefill_ || prefill > 0;
  }

  [[nodiscard]] PhaseFactors Solve(std::vector<std::string>& notes) const {
    if (!has_decodes_ && !has_prefill_)
      Refuse(fmt::format("no whole step shows time of {}", part_));
    const Eigen::VectorXd x = each_.Solve();
    const bool decode_is_flat = has_decodes_ && x[0] <= 0;
    const bool prefill_is_flat = has_prefill_ && x[1] <= 0;
    if (!decode_is_flat && !prefill_is_flat) {
      return {has_decodes_ ? x[0] : x[1], has_prefill_ ? x[1] : x[0], x[2]};
    }
    const Eigen::VectorXd common = both_.Solve();
    if (common[0] <= 0) {
      Refuse(fmt::format("the time of {} in whole steps does not grow with its time measured alone",
                         part_));
    }
    notes.push_back(
        fmt::format("the time of {} in {} steps does not grow with its time measured alone: one "
                    "factor for both "
                    "phases",
                    part_, decode_is_flat ? "decode" : "prefill"));
    return {common[0], common[0], common[1]};
  }

 private:
  std::string part_;
  Problem each_{3};
  Problem both_{2};
  bool has_decodes_ = false;
  bool has_prefill_ = false;
};

void FitGemm(const FitInput& input, FittedCostConfig& config, std::vector<std::string>& notes) {
  const CostTable layers("gemm_layers", input.gemm_layers);
  const CostTable head("gemm_head", input.gemm_head);
  PhaseProblem problem("matrix products");
  for (const StepSample& step : input.steps) {
    if (step.held_out) continue;
    const ComputedRows computed = ComputedRowsOf(step.totals, input.decode_buckets);
    const double alone = layers.At(static_cast<double>(computed.tokens)) +
                         head.At(static_cast<double>(computed.logits));
    const bool decode = IsSingleTokenStep(step.totals);
    problem.Add(decode ? alone : 0, decode ? 0 : alone, PartOf(step, StepPart::kGemm));
  }
  const PhaseFactors factors = problem.Solve(notes);
  config.gemm_decode_factor = factors.decode;
  config.gemm_prefill_factor = factors.prefill;
  config.gemm_base_s = factors.base_s;
  config.gemm_layers = input.gemm_layers;
  config.gemm_head = input.gemm_head;
}

void FitOther(const FitInput& input, FittedCostConfig& config) {
  const CostTable alone("other", input.other);
  Problem problem(2);
  for (const StepSample& step : input.steps) {
    if (step.held_out) continue;
    const ComputedRows computed = ComputedRowsOf(step.totals, input.decode_buckets);
    problem.Add({alone.At(static_cast<double>(computed.tokens)), 1},
                PartOf(step, StepPart::kOther));
  }
  const Eigen::VectorXd x = problem.Solve();
  if (x[0] <= 0)
    Refuse("the time of norms and activations in whole steps does not grow with tokens");
  config.other_factor = x[0];
  config.other_base_s = x[1];
  config.other = input.other;
}

// Drops the constants, which belong to measuring alone and not to a step.
AttentionPart FitAttentionAlone(const FitInput& input, const FeatureExtractor& features) {
  Problem prefill(5);
  Problem decode(3);
  for (const AttentionSample& sample : input.attention) {
    const StepFeatures x = features(sample.totals);
    if (sample.totals.prefill_items > 0) {
      prefill.Add(
          {1, static_cast<double>(sample.totals.prefill_items), At(x, Feature::kPrefillTokens),
           At(x, Feature::kPrefillContext), At(x, Feature::kPrefillPairs)},
          sample.seconds);
    } else {
      decode.Add({1, At(x, Feature::kDecodeItems), At(x, Feature::kDecodeContext)}, sample.seconds);
    }
  }
  if (prefill.size() < 5 || decode.size() < 3) {
    Refuse(fmt::format("has attention of {} prefills and {} decodes; needed: at least 5 and 3",
                       prefill.size(), decode.size()));
  }
  const Eigen::VectorXd p = prefill.Solve();
  const Eigen::VectorXd d = decode.Solve();
  return {.per_prefill_item_s = p[1],
          .per_prefill_token_s = p[2],
          .per_prefill_context_token_s = p[3],
          .per_prefill_pair_s = p[4],
          .per_decode_item_s = d[1],
          .per_decode_context_token_s = d[2]};
}

void FitAttention(const FitInput& input, const FeatureExtractor& features, FittedCostConfig& config,
                  std::vector<std::string>& notes) {
  AttentionPart a = FitAttentionAlone(input, features);
  PhaseProblem problem("attention");
  for (const StepSample& step : input.steps) {
    if (step.held_out) continue;
    const StepFeatures x = features(step.totals);
    const double prefill = a.per_prefill_item_s * static_cast<double>(step.totals.prefill_items) +
                           a.per_prefill_token_s * At(x, Feature::kPrefillTokens) +
                           a.per_prefill_context_token_s * At(x, Feature::kPrefillContext) +
                           a.per_prefill_pair_s * At(x, Feature::kPrefillPairs);
    const double decode = a.per_decode_item_s * At(x, Feature::kDecodeItems) +
                          a.per_decode_context_token_s * At(x, Feature::kDecodeContext);
    problem.Add(decode, prefill, PartOf(step, StepPart::kAttention));
  }
  const PhaseFactors factors = problem.Solve(notes);
  a.base_s = factors.base_s;
  a.per_prefill_item_s *= factors.prefill;
  a.per_prefill_token_s *= factors.prefill;
  a.per_prefill_context_token_s *= factors.prefill;
  a.per_prefill_pair_s *= factors.prefill;
  a.per_decode_item_s *= factors.decode;
  a.per_decode_context_token_s *= factors.decode;
  config.attention = a;
}

LinearPart Linear(const Eigen::VectorXd& x) {
  return {.base_s = x[0], .per_item_s = x[1], .per_token_s = x[2]};
}

void FitSmallParts(const FitInput& input, FittedCostConfig& config) {
  Problem build(3);
  Problem sampling(3);
  for (const StepSample& step : input.steps) {
    if (step.held_out) continue;
    build.Add({1, Items(step.totals), static_cast<double>(step.totals.tokens())},
              PartOf(step, StepPart::kBuild));
    // Steps that emit nothing sample nothing; their few nanoseconds would distort relative errors.
    if (step.totals.emitting_items == 0) continue;
    sampling.Add({1, static_cast<double>(step.totals.emitting_items), 0},
                 PartOf(step, StepPart::kSampling));
  }
  config.build = Linear(build.Solve());
  config.sampling = Linear(sampling.Solve());
  Problem schedule(3);
  Problem delivery(3);
  for (const HostSample& sample : input.host) {
    schedule.Add({1, sample.items, sample.tokens}, sample.schedule_s);
    delivery.Add({1, sample.items, sample.tokens}, sample.delivery_s);
  }
  config.schedule = Linear(schedule.Solve());
  config.delivery = Linear(delivery.Solve());
  Problem copies(2);
  for (const CostPoint& point : input.copies) copies.Add({1, point.at}, point.seconds);
  const Eigen::VectorXd x = copies.Solve();
  config.swap_latency_s = x[0];
  config.per_swapped_block_s = x[1];
}

void SetRange(const FitInput& input, FittedCostConfig& config) {
  const auto widen = [&](const StepTotals& totals) {
    config.decode_items_max = std::max(config.decode_items_max, totals.decode_items);
    config.decode_context_tokens_max =
        std::max(config.decode_context_tokens_max, totals.decode_context_tokens);
    config.prefill_context_tokens_max =
        std::max(config.prefill_context_tokens_max, totals.prefill_context_tokens);
  };
  for (const StepSample& step : input.steps) widen(step.totals);
  for (const AttentionSample& sample : input.attention) widen(sample.totals);
  config.tokens_max =
      static_cast<std::int64_t>(std::min(input.gemm_layers.back().at, input.other.back().at));
}

// Predicted and measured times of one part.
struct Comparison {
  std::vector<double> errors;
  std::vector<double> noise;
  double measured = 0;
  double predicted = 0;

  void Add(double measured_s, double predicted_s, std::optional<double> relative_noise) {
    if (!(measured_s > 0)) return;
    errors.push_back(std::abs(predicted_s - measured_s) / measured_s);
    if (relative_noise) noise.push_back(*relative_noise);
    measured += measured_s;
    predicted += predicted_s;
  }

  PartError Sum(double all_measured) {
    return {.steps = static_cast<std::int64_t>(errors.size()),
            .median = QuantileOrZero(errors, 0.5),
            .p90 = QuantileOrZero(errors, 0.9),
            .bias = measured > 0 ? predicted / measured - 1 : 0,
            .noise = noise.empty() ? std::nullopt : std::optional(Median(noise)),
            .share = all_measured > 0 ? measured / all_measured : 0};
  }
};

bool IsOfDevice(std::size_t part) {
  return part != static_cast<std::size_t>(StepPart::kSchedule) &&
         part != static_cast<std::size_t>(StepPart::kDelivery);
}

// The errors on steps that the model was not fitted on: compares predicted and measured times of
// the steps with `held_out`.
FitReport MeasureFitErrors(const FittedCost& cost, std::span<const StepSample> steps) {
  std::array<Comparison, kStepPartCount> parts;
  Comparison total;
  StepPlan plan;
  for (const StepSample& step : steps) {
    if (!step.held_out) continue;
    plan.totals = step.totals;
    plan.work.resize(
        static_cast<std::size_t>(step.totals.prefill_items + step.totals.decode_items));
    const StepParts predicted = *cost.Parts(plan);
    double measured_s = 0;
    for (std::size_t i = 0; i < kStepPartCount; ++i) {
      if (!IsOfDevice(i)) continue;
      parts[i].Add(step.seconds[i], Seconds(predicted.times[i]), step.noise[i]);
      measured_s += step.seconds[i];
    }
    total.Add(measured_s, Seconds(predicted.device()), step.total_noise);
  }
  FitReport report;
  report.total = total.Sum(total.measured);
  for (std::size_t i = 0; i < kStepPartCount; ++i) {
    report.parts[i] = parts[i].Sum(total.measured);
  }
  return report;
}

}  // namespace

FitResult FitCost(const FitInput& input, const ModelSpec& model) {
  const auto fitted = std::count_if(input.steps.begin(), input.steps.end(),
                                    [](const StepSample& step) { return !step.held_out; });
  if (static_cast<std::size_t>(fitted) < kFewestSteps) {
    Refuse(fmt::format("has {} whole steps to fit on; needed: at least {}", fitted, kFewestSteps));
  }
  const FeatureExtractor features(model, 1);
  FitResult result;
  result.config.decode_buckets = input.decode_buckets;
  std::vector<std::string> notes;
  FitGemm(input, result.config, notes);
  FitOther(input, result.config);
  FitAttention(input, features, result.config, notes);
  FitSmallParts(input, result.config);
  SetRange(input, result.config);
  result.config.parameters = TotalParameters(model);
  result.config.weight_dtype = model.weight_dtype;
  result.config.kv_dtype = model.kv_dtype;
  result.report = MeasureFitErrors(FittedCost(result.config, model, {}), input.steps);
  result.report.fitted_steps = fitted;
  result.report.notes = std::move(notes);
  return result;
}

}  // namespace twin::sim
