// Layers of Gated DeltaNet on the CPU.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/lap_timer.h"
#include "exec/model/model_config.h"
#include "exec/model/weights.h"
#include "exec/ragged_batch.h"
#include "kernels/aligned_buffer.h"
#include "kernels/matrix_view.h"
#include "kernels/thread_pool.h"

namespace twin::exec {

// A sequence has StateFloats() numbers of fp32: for each such layer the latest inputs of the
// convolution, then the state. All are zero before the first token. Tokens are computed one after
// the other, in prefill as in decodes, so that a row's bits do not depend on how a prompt is cut
// into chunks.
// Source: Yang, Kautz and Hatamizadeh, 2024, arXiv:2412.06464, with the gates and norms of
// Qwen3NextGatedDeltaNet of transformers 5.17.
class GatedDelta {
 public:
  using Matrix = kernels::MatrixView<float>;
  using ConstMatrix = kernels::MatrixView<const float>;

  // Copies what it needs of `model`, which is a rank's share, and of its weights; borrows the pool.
  GatedDelta(const ModelConfig& model, const ModelWeights& weights, kernels::ThreadPool& pool);

  // 0 if the model has no such layer.
  [[nodiscard]] std::int64_t StateFloats() const { return state_floats_; }

  // Computes layer `layer` of the share up to its output projection, and the states of the batch.
  // Shapes: x [rows, hidden]; out [rows, value_heads * value_dim].
  void Compute(ConstMatrix x, const RecurrentSpec& spec, const LayerWeights& weights,
               std::size_t layer, const RaggedBatch& batch, LapTimer& laps, Matrix out);

 private:
  struct Layer {
    std::vector<float> taps;  // [taps, channels]
    std::int64_t first = 0;   // of its part of a sequence's numbers
  };

  float norm_epsilon_;
  kernels::ThreadPool& pool_;
  std::vector<Layer> layers_;  // of the share; without taps for other kinds
  std::int64_t state_floats_ = 0;
  std::vector<float*> tails_;
  std::vector<float*> states_;
  kernels::AlignedBuffer projected_buffer_;
};

}  // namespace twin::exec
