// The mixtures of experts of a model on the CPU.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "exec/model/model_config.h"
#include "exec/model/weights.h"
#include "exec/profile/mixture_part.h"
#include "kernels/aligned_buffer.h"
#include "kernels/matrix_view.h"
#include "kernels/routing.h"
#include "kernels/thread_pool.h"
#include "kernels/weight_matrix.h"

namespace twin::exec {

// Views of the matrices of one layer's mixture; they stay valid when the weights are moved.
struct MixtureMatrices {
  struct Expert {
    kernels::WeightView up;  // rows of the gate, then of the up projection
    kernels::WeightView down;
    std::span<const float> up_bias;  // empty: none
    std::span<const float> down_bias;
  };
  kernels::WeightView router;
  std::span<const float> router_bias;     // empty: none
  std::span<const float> selection_bias;  // empty: none
  std::vector<Expert> experts;
  Expert shared;                    // without rows if there is none
  kernels::WeightView shared_gate;  // without rows: the shared expert is added as it is

  [[nodiscard]] bool is_dense() const { return experts.empty(); }
  [[nodiscard]] bool has_shared() const { return shared.up.rows > 0; }
};

// The mixtures by layer, without experts where the MLP is dense; empty if all MLPs are.
std::vector<MixtureMatrices> MixturesOf(const ModelWeights& weights);

// Computes mixtures of one shape. Source: Jiang et al., 2024, arXiv:2401.04088 (experts);
// Qwen2MoeSparseMoeBlock of transformers 4.55.4 (shared expert with a gate); DeepSeek-AI, 2024,
// arXiv:2412.19437 (choice of experts).
class ExpertMixture {
 public:
  using Matrix = kernels::MatrixView<float>;
  // Called after each part of a computation.
  using Lap = std::function<void(MixturePart)>;

  // Copies what it needs of `model`, which is a rank's share; borrows the pool.
  ExpertMixture(const ModelConfig& model, kernels::ThreadPool& pool);

  // y[t] = sum over the experts e chosen for row t of weight[t, e] * e(x[t])
  //        + sigmoid(shared_gate . x[t]) * shared(x[t]), or without a gate + shared(x[t])
  //
  // Each matrix is multiplied once, with all rows of its expert. The sum has the ascending order of
  // experts, so that a row of y depends on its row of x alone, to the bit. The result is valid
  // until the next call. Shapes: x and y [rows, hidden]. Aliasing: x is not a result of this
  // object.
  Matrix Compute(kernels::MatrixView<const float> x, const MixtureMatrices& matrices,
                 const Lap& lap);

 private:
  void AddExpert(kernels::MatrixView<const float> x, const MixtureMatrices::Expert& expert,
                 std::int64_t index, const Lap& lap);
  void AddShared(kernels::MatrixView<const float> x, const MixtureMatrices& matrices,
                 const Lap& lap);
  // Returns down(activation(gate(x)) * up(x)), with as many rows as x has, or what gate_limit of
  // ModelConfig says.
  Matrix ComputeMlp(kernels::MatrixView<const float> x, const MixtureMatrices::Expert& expert,
                    bool shared, const Lap& lap);

  void ActivateGate(Matrix gate, Matrix up);

  Activation activation_;
  float gate_limit_;
  kernels::ExpertChoice choice_;
  kernels::ThreadPool& pool_;
  kernels::RoutedRows routed_;
  kernels::AlignedBuffer logit_buffer_;
  kernels::AlignedBuffer gathered_buffer_;
  kernels::AlignedBuffer inner_buffer_;
  kernels::AlignedBuffer output_buffer_;  // of one expert
  kernels::AlignedBuffer sum_buffer_;
  Matrix sum_;
};

}  // namespace twin::exec
