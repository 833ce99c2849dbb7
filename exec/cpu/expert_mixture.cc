#include "exec/cpu/expert_mixture.h"

#include <algorithm>

#include "core/layer_groups.h"
#include "exec/cpu/sized_matrix.h"
#include "kernels/activation.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"

namespace twin::exec {
namespace {

// All mixtures of a model choose alike.
kernels::ExpertChoice ChoiceOf(const ModelConfig& model) {
  kernels::ExpertChoice choice{.normalised = model.normalises_expert_weights,
                               .groups = model.routing.groups,
                               .groups_kept = model.routing.groups_kept,
                               .best_of_group = model.routing.best_of_group,
                               .scale = model.routing.scale};
  if (model.routing.sigmoid) choice.score = kernels::ExpertScore::kSigmoid;
  for (const LayerSpec& layer : LayerList(model.shape)) {
    if (layer.moe.experts > 0) choice.experts_per_row = layer.moe.experts_per_token;
  }
  return choice;
}

}  // namespace

std::vector<MixtureMatrices> MixturesOf(const ModelWeights& weights) {
  std::vector<MixtureMatrices> mixtures;
  const bool any = std::ranges::any_of(
      weights.layers, [](const LayerWeights& layer) { return !layer.experts.empty(); });
  if (!any) return mixtures;
  for (const LayerWeights& layer : weights.layers) {
    MixtureMatrices& mixture = mixtures.emplace_back();
    if (layer.experts.empty()) continue;
    mixture.router = layer.router.matrix.view();
    mixture.router_bias = layer.router.bias;
    mixture.selection_bias = layer.selection_bias;
    for (const auto& expert : layer.experts) {
      mixture.experts.push_back(
          {expert.up.matrix.view(), expert.down.matrix.view(), expert.up.bias, expert.down.bias});
    }
    mixture.shared = {layer.up.matrix.view(), layer.down.matrix.view(), layer.up.bias,
                      layer.down.bias};
    mixture.shared_gate = layer.shared_gate.matrix.view();
  }
  return mixtures;
}

ExpertMixture::ExpertMixture(const ModelConfig& model, kernels::ThreadPool& pool)
    : activation_(model.activation),
      gate_limit_(model.gate_limit),
      choice_(ChoiceOf(model)),
      pool_(pool) {}

ExpertMixture::Matrix ExpertMixture::Compute(kernels::MatrixView<const float> x,
                                             const MixtureMatrices& matrices, const Lap& lap) {
  const Matrix logits = Sized(logit_buffer_, x.rows, matrices.router.rows);
  kernels::Gemm(pool_, x, matrices.router, {.bias = matrices.router_bias}, logits);
  lap(MixturePart::kRouter);
  choice_.bias = matrices.selection_bias;
  kernels::RouteRows(pool_, logits, choice_, routed_);
  sum_ = Sized(sum_buffer_, x.rows, x.columns);
  std::fill_n(sum_.data, sum_.rows * sum_.columns, 0.0F);
  lap(MixturePart::kRouting);
  for (std::size_t i = 0; i < matrices.experts.size(); ++i) {
    AddExpert(x, matrices.experts[i], static_cast<std::int64_t>(i), lap);
  }
  if (matrices.has_shared()) AddShared(x, matrices, lap);
  return sum_;
}

void ExpertMixture::AddExpert(kernels::MatrixView<const float> x,
                              const MixtureMatrices::Expert& expert, std::int64_t index,
                              const Lap& lap) {
  const std::span<const std::int32_t> rows = routed_.RowsOf(index);
  if (rows.empty()) return;
  const Matrix gathered =
      Sized(gathered_buffer_, static_cast<std::int64_t>(rows.size()), x.columns);
  kernels::GatherRows(pool_, x, rows, gathered);
  lap(MixturePart::kRouting);
  const Matrix output = ComputeMlp(gathered, expert, false, lap);
  kernels::AddScaledRows(pool_, output, rows, routed_.WeightsOf(index), sum_);
  lap(MixturePart::kRouting);
}

void ExpertMixture::AddShared(kernels::MatrixView<const float> x, const MixtureMatrices& matrices,
                              const Lap& lap) {
  const Matrix output = ComputeMlp(x, matrices.shared, true, lap);
  if (matrices.shared_gate.rows == 0) {
    kernels::Add(pool_, output, sum_);
    lap(MixturePart::kRouting);
    return;
  }
  const Matrix gates = Sized(logit_buffer_, x.rows, 1);
  kernels::Gemm(pool_, x, matrices.shared_gate, {}, gates);
  lap(MixturePart::kRouter);
  kernels::AddGatedRows(pool_, output, gates, sum_);
  lap(MixturePart::kRouting);
}

ExpertMixture::Matrix ExpertMixture::ComputeMlp(kernels::MatrixView<const float> x,
                                                const MixtureMatrices::Expert& expert, bool shared,
                                                const Lap& lap) {
  const Matrix inner = Sized(inner_buffer_, x.rows, expert.up.rows);
  kernels::Gemm(pool_, x, expert.up, {.bias = expert.up_bias}, inner);
  lap(shared ? MixturePart::kSharedUp : MixturePart::kExpertUp);
  const std::int64_t width = expert.up.rows / 2;
  const Matrix gate = inner.Columns(0, width);
  ActivateGate(gate, inner.Columns(width, width));
  lap(MixturePart::kActivation);
  const Matrix output = Sized(output_buffer_, x.rows, expert.down.rows);
  kernels::Gemm(pool_, gate, expert.down, {.bias = expert.down_bias}, output);
  lap(shared ? MixturePart::kSharedDown : MixturePart::kExpertDown);
  return output;
}

void ExpertMixture::ActivateGate(Matrix gate, Matrix up) {
  if (gate_limit_ > 0) {
    kernels::ActivateClamped(pool_, gate_limit_, gate, up, gate);
  } else {
    kernels::ActivateGated(pool_, activation_, gate, up, gate);
  }
}

}  // namespace twin::exec
