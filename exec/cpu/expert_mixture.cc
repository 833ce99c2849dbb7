#include "exec/cpu/expert_mixture.h"

#include <algorithm>

#include "kernels/activation.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"

namespace twin::exec {
namespace {

kernels::MatrixView<float> DenseIn(kernels::AlignedBuffer& buffer, std::int64_t rows,
                                   std::int64_t columns) {
  return kernels::DenseMatrix(buffer.Reserve<float>(rows * columns), rows, columns);
}

}  // namespace

std::vector<MixtureMatrices> MixturesOf(const ModelWeights& weights) {
  std::vector<MixtureMatrices> mixtures;
  for (const LayerWeights& layer : weights.layers) {
    if (layer.experts.empty()) continue;
    MixtureMatrices& mixture = mixtures.emplace_back();
    mixture.router = layer.router.matrix.view();
    for (const auto& expert : layer.experts) {
      mixture.experts.push_back({expert.up.matrix.view(), expert.down.matrix.view()});
    }
    mixture.shared = {layer.up.matrix.view(), layer.down.matrix.view()};
    mixture.shared_gate = layer.shared_gate.matrix.view();
  }
  return mixtures;
}

ExpertMixture::ExpertMixture(const ModelConfig& model, kernels::ThreadPool& pool)
    : activation_(model.activation),
      experts_per_token_(model.shape.moe.experts_per_token),
      normalised_(model.normalises_expert_weights),
      pool_(pool) {}

ExpertMixture::Matrix ExpertMixture::Compute(kernels::MatrixView<const float> x,
                                             const MixtureMatrices& matrices, const Lap& lap) {
  const Matrix logits = DenseIn(logit_buffer_, x.rows, matrices.router.rows);
  kernels::Gemm(pool_, x, matrices.router, {}, logits);
  lap(MixturePart::kRouter);
  kernels::RouteRows(pool_, logits, experts_per_token_, normalised_, routed_);
  sum_ = DenseIn(sum_buffer_, x.rows, x.columns);
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
      DenseIn(gathered_buffer_, static_cast<std::int64_t>(rows.size()), x.columns);
  kernels::GatherRows(pool_, x, rows, gathered);
  lap(MixturePart::kRouting);
  const Matrix output = ComputeMlp(gathered, expert, false, lap);
  kernels::AddScaledRows(pool_, output, rows, routed_.WeightsOf(index), sum_);
  lap(MixturePart::kRouting);
}

void ExpertMixture::AddShared(kernels::MatrixView<const float> x, const MixtureMatrices& matrices,
                              const Lap& lap) {
  const Matrix output = ComputeMlp(x, matrices.shared, true, lap);
  const Matrix gates = DenseIn(logit_buffer_, x.rows, 1);
  kernels::Gemm(pool_, x, matrices.shared_gate, {}, gates);
  lap(MixturePart::kRouter);
  kernels::AddGatedRows(pool_, output, gates, sum_);
  lap(MixturePart::kRouting);
}

ExpertMixture::Matrix ExpertMixture::ComputeMlp(kernels::MatrixView<const float> x,
                                                const MixtureMatrices::Expert& expert, bool shared,
                                                const Lap& lap) {
  const Matrix inner = DenseIn(inner_buffer_, x.rows, expert.up.rows);
  kernels::Gemm(pool_, x, expert.up, {}, inner);
  lap(shared ? MixturePart::kSharedUp : MixturePart::kExpertUp);
  const std::int64_t width = expert.up.rows / 2;
  const Matrix gate = inner.Columns(0, width);
  kernels::ActivateGated(pool_, activation_, gate, inner.Columns(width, width), gate);
  lap(MixturePart::kActivation);
  const Matrix output = DenseIn(output_buffer_, x.rows, expert.down.rows);
  kernels::Gemm(pool_, gate, expert.down, {}, output);
  lap(shared ? MixturePart::kSharedDown : MixturePart::kExpertDown);
  return output;
}

}  // namespace twin::exec
