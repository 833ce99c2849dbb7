// Runs the operations of a model on the CPU one by one, to be measured.
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

// Views of a model's matrices; they stay valid when the weights are moved.
struct ModelMatrices {
  struct Layer {
    kernels::WeightView qkv;
    kernels::WeightView output;
    kernels::WeightView up;
    kernels::WeightView down;

    // The matrices that the model has. In a mixture, `up` and `down` are the shared expert's.
    [[nodiscard]] std::vector<const kernels::WeightView*> present() const;
  };
  std::vector<Layer> layers;
  std::vector<MixtureMatrices> mixtures;  // by layer; empty if MLPs are dense
  kernels::WeightView embedding;
  kernels::WeightView head;
};

ModelMatrices MatricesOf(const ModelWeights& weights);

// Seconds by MixturePart.
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

  // A matrix of random numbers, which are drawn again only if it has to grow.
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
