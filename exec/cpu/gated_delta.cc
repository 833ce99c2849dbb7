#include "exec/cpu/gated_delta.h"

#include "core/layer_groups.h"
#include "exec/cpu/sized_matrix.h"
#include "kernels/activation.h"
#include "kernels/gated_delta.h"
#include "kernels/gemm.h"
#include "kernels/norm.h"

namespace twin::exec {
namespace {

kernels::DeltaHeads HeadsOf(const RecurrentSpec& spec) {
  return {.key_heads = spec.key_heads,
          .value_heads = spec.value_heads,
          .key_dim = spec.key_dim,
          .value_dim = spec.value_dim};
}

std::int64_t ChannelsOf(const RecurrentSpec& spec) {
  const kernels::DeltaHeads heads = HeadsOf(spec);
  return 2 * heads.key_width() + heads.value_width();
}

std::int64_t TailFloats(const RecurrentSpec& spec) {
  return (spec.convolution - 1) * ChannelsOf(spec);
}

// The stored taps are [channels, 1, taps].
std::vector<float> TapsByChannel(const std::vector<float>& stored, std::int64_t channels) {
  std::vector<float> taps(stored.size());
  const auto width = static_cast<std::size_t>(channels);
  const std::size_t count = stored.size() / width;
  for (std::size_t i = 0; i < stored.size(); ++i) taps[i % count * width + i / count] = stored[i];
  return taps;
}

}  // namespace

GatedDelta::GatedDelta(const ModelConfig& model, const ModelWeights& weights,
                       kernels::ThreadPool& pool)
    : norm_epsilon_(model.norm_epsilon), pool_(pool) {
  const std::vector<LayerSpec> specs = LayerList(model.shape);
  layers_.resize(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!specs[i].recurrent) continue;
    const RecurrentSpec& spec = *specs[i].recurrent;
    layers_[i] = {TapsByChannel(weights.layers[i].convolution, ChannelsOf(spec)), state_floats_};
    state_floats_ += TailFloats(spec) + HeadsOf(spec).StateFloats();
  }
}

void GatedDelta::Compute(ConstMatrix x, const RecurrentSpec& spec, const LayerWeights& weights,
                         std::size_t layer, const RaggedBatch& batch, LapTimer& laps, Matrix out) {
  const kernels::DeltaHeads heads = HeadsOf(spec);
  const std::int64_t channels = ChannelsOf(spec);
  const std::int64_t keys = heads.key_width();
  const std::int64_t values = heads.value_width();
  const Matrix projected = Sized(projected_buffer_, x.rows, weights.qkv.matrix.view().rows);
  laps.Lap(StepPart::kOther);
  kernels::Gemm(pool_, x, weights.qkv.matrix.view(), {}, projected);
  laps.Lap(StepPart::kGemm);
  tails_.assign(batch.items(), nullptr);
  states_.assign(batch.items(), nullptr);
  for (std::size_t i = 0; i < batch.states.size(); ++i) {
    if (batch.states[i] == nullptr) continue;
    tails_[i] = batch.states[i] + layers_[layer].first;
    states_[i] = tails_[i] + TailFloats(spec);
  }
  const Matrix inputs = projected.Columns(0, channels);
  kernels::CausalConvolution(
      pool_,
      kernels::DenseMatrix(std::as_const(layers_[layer]).taps.data(), spec.convolution, channels),
      {.first_row = batch.first_row, .states = tails_}, inputs);
  const std::int64_t rates = channels + values;
  kernels::GatedDeltaRule(
      pool_, heads, {.first_row = batch.first_row, .states = states_},
      {.queries = inputs.Columns(0, keys),
       .keys = inputs.Columns(keys, keys),
       .values = inputs.Columns(2 * keys, values),
       .rates = projected.Columns(rates, heads.value_heads),
       .decays = projected.Columns(rates + heads.value_heads, heads.value_heads),
       .decay = weights.decay,
       .decay_bias = weights.decay_bias},
      out);
  laps.Lap(StepPart::kAttention);
  kernels::HeadRmsNorm(pool_, weights.value_norm.gain, norm_epsilon_, out);
  kernels::ActivateGated(pool_, Activation::kSilu, projected.Columns(channels, values), out, out);
}

}  // namespace twin::exec
