// The operations of a model on the CPU, one by one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/random.h"
#include "exec/cpu/expert_mixture.h"
#include "exec/model/model_config.h"
#include "exec/model/weights.h"
#include "exec/profile/operations.h"
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

    // Those that the model has: of a mixture, the shared expert's alone are `up` and `down`.
    [[nodiscard]] std::vector<const kernels::WeightView*> present() const;
  };
  std::vector<Layer> layers;
  std::vector<MixtureMatrices> mixtures;  // of each layer; empty: MLPs are dense
  kernels::WeightView embedding;
  kernels::WeightView head;
};

ModelMatrices MatricesOf(const ModelWeights& weights);

// By MixturePart.
using MixtureSeconds = std::array<double, kMixturePartCount>;

class CpuOperations final : public Operations {
 public:
  // Borrows everything; the cache is that of the model.
  CpuOperations(const ModelConfig& config, ModelMatrices matrices, std::int32_t positions,
                const kernels::KvCacheView& cache, kernels::ThreadPool& pool);

  GemmSeconds RunGemms(std::int64_t tokens) override;
  double RunHead(std::int64_t rows) override;
  OtherSeconds RunOther(std::int64_t tokens) override;
  double RunAttention(std::span<const StepItem> items) override;
  double RunBlockCopies(std::int64_t blocks) override;

 private:
  using Matrix = kernels::MatrixView<float>;

  // Random numbers, kept from call to call while they suffice.
  Matrix Input(std::int64_t rows, std::int64_t columns);
  Matrix Output(std::int64_t rows, std::int64_t columns);
  void Normalize(Matrix from, Matrix to);
  // Computes the mixtures of all layers.
  MixtureSeconds RunMixtures(std::int64_t tokens);
  double RunActivation(Matrix from, Matrix to);

  const ModelConfig& config_;
  ModelMatrices matrices_;
  ExpertMixture mixture_;
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
