// The operations of a model, one by one: for measuring how long each takes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/random.h"
#include "exec/cpu/ragged_batch.h"
#include "exec/model/model_config.h"
#include "exec/model/weights.h"
#include "exec/profile/synthetic_steps.h"
#include "kernels/aligned_buffer.h"
#include "kernels/kv_cache.h"
#include "kernels/matrix_view.h"
#include "kernels/rope.h"
#include "kernels/thread_pool.h"

namespace twin::exec {

// Matrices of a model; views outlive its weights being moved.
struct ModelMatrices {
  struct Layer {
    kernels::WeightView qkv;
    kernels::WeightView output;
    kernels::WeightView up;
    kernels::WeightView down;
  };
  std::vector<Layer> layers;
  kernels::WeightView embedding;
  kernels::WeightView head;
};

ModelMatrices MatricesOf(const ModelWeights& weights);

// Seconds of each matrix product, all layers together.
struct GemmSeconds {
  double qkv = 0;
  double output = 0;
  double up = 0;
  double down = 0;

  [[nodiscard]] double sum() const { return qkv + output + up + down; }
};

// Seconds of everything else that is done token by token, all layers together.
struct OtherSeconds {
  double norms = 0;
  double rope = 0;
  double append = 0;  // of keys and values to the cache
  double activation = 0;
  double embedding = 0;

  [[nodiscard]] double sum() const { return norms + rope + append + activation + embedding; }
};

// Each call runs an operation once through all layers, in the order of a step, so that weights and
// cache come from where they come from in a step. Activations are random.
class Operations {
 public:
  // Borrows everything; the cache is that of the model.
  Operations(const ModelConfig& config, ModelMatrices matrices, std::int32_t positions,
             const kernels::KvCacheView& cache, kernels::ThreadPool& pool);

  GemmSeconds RunGemms(std::int64_t tokens);
  double RunHead(std::int64_t rows);
  OtherSeconds RunOther(std::int64_t tokens);
  // REQUIRES: the cache has blocks for all items.
  double RunAttention(std::span<const StepItem> items);
  // Within the cache. REQUIRES: it has twice as many blocks.
  double RunBlockCopies(std::int64_t blocks);

 private:
  using Matrix = kernels::MatrixView<float>;

  // Random numbers, kept from call to call while they suffice.
  Matrix Input(std::int64_t rows, std::int64_t columns);
  Matrix Output(std::int64_t rows, std::int64_t columns);
  void Normalize(Matrix from, Matrix to);

  const ModelConfig& config_;
  ModelMatrices matrices_;
  kernels::KvCacheView cache_;
  kernels::ThreadPool& pool_;
  Random random_;
  std::optional<kernels::RopeTable> rope_;
  std::vector<float> gain_;
  std::vector<float> bias_;
  kernels::AlignedBuffer input_;
  std::int64_t filled_ = 0;
  kernels::AlignedBuffer output_;
};

}  // namespace twin::exec
