#include "sim/devices/step_model.h"

#include <algorithm>
#include <cmath>

#include "core/layer_groups.h"
#include "core/layer_work.h"
#include "sched/computed_rows.h"
#include "sim/cost/transformer_graph.h"
#include "sim/devices/drawn_errors.h"

namespace twin::sim {
namespace {

constexpr double kNormal90 = 1.645;  // of a standard normal variable, 90 % lie within
constexpr double kHiddenShare = 0.05;
// Launch time of a layer that is captured in pieces, relative to that of an eager layer.
constexpr double kPiecesLaunch = 1.0 / 3;

constexpr bool IsCompute(OperationClass operation) {
  return operation == OperationClass::kGemm || operation == OperationClass::kExperts ||
         operation == OperationClass::kPrefillAttention;
}

// By number of rows, the size that they are padded to. `sizes` ascend.
std::vector<std::uint32_t> RowsBySize(const std::vector<std::uint32_t>& sizes) {
  std::vector<std::uint32_t> rows;
  for (const std::uint32_t size : sizes) rows.resize(std::size_t{size} + 1, size);
  return rows;
}

// All but the context of the decodes is equal.
bool SameButContext(const StepTotals& a, StepTotals b) {
  b.decode_context_tokens = a.decode_context_tokens;
  b.decode_context_max = a.decode_context_max;
  return a == b;
}

StepTerms WithErrors(StepTerms terms, const DrawnErrors& errors) {
  for (std::size_t i = 0; i < kStepTermFields.size(); ++i) {
    StepTerm& term = terms.*kStepTermFields[i].value;
    term.value *= std::exp(errors.terms[i] * term.log_sd);
  }
  return terms;
}

// Rows at which a product computes for as long as it reads its weights. Of the experts' rows, each
// visits `experts_per_token` of them. Of a model with both, of what has more weights.
double RidgeRows(const ModelSpec& model, const HardwareSpec& hardware) {
  MoeSpec moe;
  for (const LayerGroup& group : OrderedLayers(model)) {
    if (group.layer.moe.experts > moe.experts) moe = group.layer.moe;
  }
  const DType format =
      moe.experts > 0 ? FormatOfPart(model, LayerPart::kExperts) : model.weight_dtype;
  const double flops = PeakFlops(hardware, format) * hardware.gemm_flops_fraction;
  const double bytes = hardware.memory_bandwidth_bytes_per_s * hardware.gemm_bandwidth_fraction;
  const double dense = flops / bytes * BytesPerWeight(format) / 2;
  return moe.experts == 0 ? dense : dense * moe.experts / moe.experts_per_token;
}

std::optional<RecordedModel> RecordedModelOf(const StepModelConfig& config,
                                             const StepProfile& profile, const ModelSpec& model,
                                             const Parallelism& parallelism) {
  if (config.operations.library != KernelLibrary::kVllm || !config.recorded_engine) {
    return std::nullopt;
  }
  for (const RecordedModel& recorded : profile.models) {
    if (!recorded.Is(model, parallelism)) continue;
    RecordedModel found = recorded;
    if (!config.recorded_ratios) found.decode_ratios = found.prompt_ratios = {};
    return found;
  }
  return std::nullopt;
}

std::shared_ptr<const PreparedStages> Prepared(StageCache* cache, const StepModelConfig& config,
                                               const ModelSpec& model, const HardwareSpec& hardware,
                                               const Parallelism& parallelism,
                                               const DeviceProfile& device) {
  StageCache own;
  return (cache == nullptr ? own : *cache)
      .Prepare(model, hardware, parallelism, device, config.operations);
}

}  // namespace

StepModel::StepModel(const StepModelConfig& config, const ModelSpec& model,
                     const HardwareSpec& hardware, const Parallelism& parallelism,
                     const DeviceProfile& device, StageCache* stages)
    : terms_(WithErrors(config.terms, DrawErrors(config.draw_seed))),
      heat_memory_(terms_.heat_tau_s.value),
      captured_rows_(RowsBySize(config.captured_sizes)),
      ridge_rows_(RidgeRows(model, hardware)),
      captures_pieces_(config.captures_pieces),
      launches_kernels_(config.launches_kernels),
      mean_context_(config.mean_context),
      draws_errors_(config.draw_seed != 0),
      errors_(DrawErrors(config.draw_seed).operations),
      recorded_error_(DrawErrors(config.draw_seed).recorded),
      recorded_prompt_error_(DrawErrors(config.draw_seed).recorded_prompts),
      recorded_(RecordedModelOf(config, device.steps, model, parallelism)),
      stages_(Prepared(stages, config, model, hardware, parallelism, device)) {}

double StepModel::OpenShare(const StepLoad& load) const {
  if (!recorded_) return 1;
  return recorded_->OpenShare(static_cast<double>(load.rows), load.decodes.requests,
                              load.decodes.context_tokens + load.chunks.context_tokens);
}

double StepModel::RecordedRatio(const StepLoad& load) const {
  if (!recorded_) return 1;
  const RecordedRatios& ratios =
      load.chunks.chunks > 0 ? recorded_->prompt_ratios : recorded_->decode_ratios;
  return std::exp((1 - OpenShare(load)) * ratios.At(static_cast<double>(load.rows)));
}

double StepModel::RecordedError(const StepLoad& load) const {
  if (load.chunks.chunks > 0) return recorded_prompt_error_ * recorded_->prompt_lasting_sd;
  return recorded_error_ * recorded_->lasting_sd;
}

ByOperation<double> StepModel::SecondsOf(const StageOperations& stage, const StepLoad& load) const {
  const double ratio = RecordedRatio(load);
  if (!draws_errors_) {
    ByOperation<double> seconds = stage.Seconds(load);
    for (double& one : seconds) one *= ratio;
    return seconds;
  }
  const ByOperation<TimeEstimate> estimates = stage.Estimates(load);
  const double open = std::sqrt(OpenShare(load));
  const double common = recorded_ ? RecordedError(load) : 0;
  ByOperation<double> seconds{};
  for (std::size_t i = 0; i < kOperationClassCount; ++i) {
    const double error = open * errors_[i] * estimates[i].lasting_sd + common;
    seconds[i] = ratio * estimates[i].seconds * std::exp(error);
  }
  return seconds;
}

std::int64_t StepModel::CapturedRows(const StepTotals& totals) const {
  const auto rows = static_cast<std::size_t>(totals.tokens());
  const bool captures = captures_pieces_ || IsSingleTokenStep(totals);
  return captures && rows < captured_rows_.size() ? captured_rows_[rows] : 0;
}

double StepModel::ShareOf(std::int64_t rows) const {
  return std::clamp(2 * static_cast<double>(rows) / ridge_rows_ - 1, 0.0, 1.0);
}

void StepModel::SetDecodes(const StepTotals& totals, StepLoad& load) const {
  auto decodes = static_cast<double>(totals.decode_items);
  auto context = static_cast<double>(totals.decode_context_tokens);
  if (IsSingleTokenStep(totals)) {
    decodes = static_cast<double>(totals.decode_items + totals.prefill_items);
    context += static_cast<double>(totals.prefill_context_tokens);
  }
  load.decodes = {.requests = decodes, .context_tokens = context};
  if (decodes > 0) {
    const auto longest = mean_context_ ? 0.0 : static_cast<double>(totals.decode_context_max);
    load.decodes.context_tokens_max = std::max(longest, context / decodes);
  }
}

StepModel::Shape StepModel::ShapeOf(const StepTotals& totals) const {
  Shape shape;
  StepLoad& load = shape.load;
  load.rows = totals.tokens();
  load.logits = totals.logit_rows();
  const bool single = IsSingleTokenStep(totals);
  if (const std::int64_t captured = CapturedRows(totals); captured > 0) {
    load.rows = captured;
    shape.graph = single;
    shape.pieces = !single;
  }
  if (!single) {
    load.chunks = {.chunks = static_cast<double>(totals.prefill_items),
                   .tokens = static_cast<double>(totals.prefill_tokens),
                   .context_tokens = static_cast<double>(totals.prefill_context_tokens),
                   .pairs = static_cast<double>(totals.prefill_attention_pairs)};
  }
  SetDecodes(totals, load);
  shape.compute_share = ShareOf(load.rows);
  shape.kernels = launches_kernels_;
  return shape;
}

double StepModel::ComputeShare(const StepTotals& totals) const {
  const std::int64_t captured = CapturedRows(totals);
  return ShareOf(captured > 0 ? captured : totals.tokens());
}

StepLoad StepModel::LoadOf(const StepTotals& totals) const { return ShapeOf(totals).load; }

bool StepModel::ReplaysGraph(const StepTotals& totals) const { return ShapeOf(totals).graph; }

double StepModel::Gap(const StepTerms& terms, const Shape& shape, const StageOperations& stage,
                      double operations, double last_step) {
  if (shape.graph) {
    const double gap = terms.graph_gap_s.value;
    if (last_step <= 2 * (operations + gap)) return gap;
    // The hidden part may include launches of the step's own operations, but few of them.
    return std::max(-kHiddenShare * operations, gap - terms.hidden_gap_s.value);
  }
  const double layers = shape.kernels ? stage.launched_layers() : stage.layers();
  const double launch = terms.layer_launch_s.value * layers * (shape.pieces ? kPiecesLaunch : 1.0);
  double gap = shape.pieces ? terms.graph_gap_s.value : terms.eager_gap_s.value;
  // Decodes without a graph wait for the host at least as long as with one.
  if (shape.load.chunks.chunks == 0) gap = std::max(gap, terms.graph_gap_s.value);
  return std::max(gap, launch - operations);
}

ByOperation<double> StepModel::InPlace(const StepTerms& terms, const Shape& shape,
                                       const StageOperations& stage, ByOperation<double> seconds) {
  const double u = shape.compute_share;
  const double in_place = 1 + u * (terms.compute_in_place.value - 1);
  const double warmed = u * terms.heat_factor.value;
  for (std::size_t i = 0; i < kOperationClassCount; ++i) {
    const auto operation = static_cast<OperationClass>(i);
    double& one = seconds[i];
    if (operation == OperationClass::kGemm && warmed > 0) {
      const HeatMemory heat_memory(terms.heat_tau_s.value);
      one /= 1 + warmed * stage.MeasuredHeat(shape.load.rows, heat_memory);
    }
    if (IsCompute(operation)) one *= in_place;
    if (operation == OperationClass::kCollective) one *= terms.collective_in_place.value;
  }
  return seconds;
}

StageTimes StepModel::Combine(const StepTerms& terms, const Shape& shape,
                              const StageOperations& stage, const ByOperation<double>& in_place,
                              double heat, double last_step) {
  StageTimes times;
  times.operations = in_place;
  const double u = shape.compute_share;
  const HeatMemory heat_memory(terms.heat_tau_s.value);
  double compute_bound = 0;
  double memory_bound = 0;
  for (std::size_t i = 0; i < kOperationClassCount; ++i) {
    (IsCompute(static_cast<OperationClass>(i)) ? compute_bound : memory_bound) += in_place[i];
  }
  times.gap = Gap(terms, shape, stage, compute_bound + memory_bound, last_step);
  const double kd = terms.decode_heat_factor.value;
  const double added =
      compute_bound * (kd + u * (terms.heat_factor.value - kd)) + memory_bound * kd;
  if (added == 0 || (heat == 0 && u == 0)) return times;
  const double rested = times.gap + compute_bound + memory_bound;
  double mean = heat;
  for (int pass = 0; pass < 3; ++pass) mean = heat_memory.Mean(heat, u, rested + added * mean);
  times.clocks = added * mean;
  return times;
}

void StepModel::Renew(const StepTotals& totals, int stage, Known& known) const {
  const StageOperations& operations = stages_->at(static_cast<std::size_t>(stage));
  StepLoad& load = known.shape.load;
  // Errors that are drawn depend on the spread, which is another one in each context.
  if (!draws_errors_ && SameButContext(totals, known.totals)) {
    SetDecodes(totals, load);
    if (OpenShare(load) == known.open_share) {
      constexpr auto kDecodes = static_cast<std::size_t>(OperationClass::kDecodeAttention);
      known.in_place[kDecodes] =
          operations.DecodeAttentionSeconds(load, known.batches) * known.ratio;
      return;
    }
  }
  known.rounded_factor = -1;
  known.totals = totals;
  known.shape = ShapeOf(totals);
  known.open_share = OpenShare(load);
  known.ratio = RecordedRatio(load);
  known.in_place = InPlace(terms_, known.shape, operations, SecondsOf(operations, load));
}

StageTimes StepModel::Times(const StepTotals& totals, int stage, double heat, double last_step,
                            Known& known) const {
  Renew(totals, stage, known);
  return Combine(terms_, known.shape, stages_->at(static_cast<std::size_t>(stage)), known.in_place,
                 heat, last_step);
}

StageTimes StepModel::Times(const StepTotals& totals, int stage, double heat,
                            double last_step) const {
  Known known;
  return Times(totals, stage, heat, last_step, known);
}

StageTimes StepModel::TimesWith(const StepTerms& terms, const StepTotals& totals, int stage,
                                double heat, double last_step) const {
  const Shape shape = ShapeOf(totals);
  const StageOperations& operations = stages_->at(static_cast<std::size_t>(stage));
  const ByOperation<double> in_place =
      InPlace(terms, shape, operations, SecondsOf(operations, shape.load));
  return Combine(terms, shape, operations, in_place, heat, last_step);
}

ByOperation<double> StepModel::Spread(const StepTotals& totals) const {
  const Shape shape = ShapeOf(totals);
  ByOperation<double> spread{};
  for (const StageOperations& stage : *stages_) {
    const ByOperation<TimeEstimate> estimates = stage.Estimates(shape.load);
    for (std::size_t i = 0; i < kOperationClassCount; ++i) {
      if (spread[i] == 0) spread[i] = estimates[i].log_sd;
    }
  }
  return spread;
}

StepInterval StepModel::Interval(const StepTotals& totals, double heat, double last_step) const {
  const Shape shape = ShapeOf(totals);
  const double open = std::sqrt(OpenShare(shape.load));
  const double ratio = RecordedRatio(shape.load);
  StepInterval interval;
  double variance = 0;
  for (const StageOperations& stage : *stages_) {
    const ByOperation<TimeEstimate> estimates = stage.Estimates(shape.load);
    ByOperation<double> seconds{};
    for (std::size_t i = 0; i < kOperationClassCount; ++i) {
      seconds[i] = ratio * estimates[i].seconds;
    }
    const auto total = [&](const StepTerms& terms, const ByOperation<double>& isolated) {
      return Combine(terms, shape, stage, InPlace(terms, shape, stage, isolated), heat, last_step)
          .total();
    };
    const double median = total(terms_, SecondsOf(stage, shape.load));
    interval.seconds += median;
    for (std::size_t i = 0; i < kOperationClassCount; ++i) {
      ByOperation<double> moved = seconds;
      moved[i] *= std::exp(open * estimates[i].log_sd);
      const double change = total(terms_, moved) - total(terms_, seconds);
      variance += change * change;
    }
    for (const StepTermField& field : kStepTermFields) {
      StepTerms other = terms_;
      StepTerm& term = other.*field.value;
      term.value *= std::exp(term.log_sd);
      const double change = total(other, seconds) - median;
      variance += change * change;
    }
  }
  const double single = recorded_ ? recorded_->step_sd : 0;
  const double log_sd = std::hypot(std::sqrt(variance) / interval.seconds, single);
  interval.low = interval.seconds * std::exp(-kNormal90 * log_sd);
  interval.high = interval.seconds * std::exp(kNormal90 * log_sd);
  return interval;
}

}  // namespace twin::sim
