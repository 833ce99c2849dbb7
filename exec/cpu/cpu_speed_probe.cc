// The speed probe of a model on the CPU: matrix products of one of its layers.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include "core/random.h"
#include "exec/cpu/cpu_model.h"
#include "exec/cpu/cpu_operations.h"
#include "exec/speed_probe.h"
#include "kernels/gemm.h"

namespace twin::exec {
namespace {

constexpr std::int64_t kPrefillRows = 32;

// Experts of mixtures are left out. Each run takes the next layer, so that its weights are as cold
// in the caches as in a step.
class CpuSpeedProbe final : public SpeedProbe {
 public:
  // Borrows the weights that `matrices` shows, and the pool.
  CpuSpeedProbe(ModelMatrices matrices, kernels::ThreadPool& pool);

  ProbeSeconds Run() override;

 private:
  // Seconds of all products of a layer.
  double Multiply(const ModelMatrices::Layer& layer, std::int64_t rows);

  ModelMatrices matrices_;
  kernels::ThreadPool& pool_;
  std::size_t next_layer_ = 0;
  kernels::AlignedBuffer input_;
  kernels::AlignedBuffer output_;
};

CpuSpeedProbe::CpuSpeedProbe(ModelMatrices matrices, kernels::ThreadPool& pool)
    : matrices_(std::move(matrices)), pool_(pool) {
  std::int64_t widest_in = 0;
  std::int64_t widest_out = 0;
  for (const ModelMatrices::Layer& layer : matrices_.layers) {
    for (const kernels::WeightView* w : layer.present()) {
      widest_in = std::max(widest_in, w->columns);
      widest_out = std::max(widest_out, w->rows);
    }
  }
  auto* const input = input_.Reserve<float>(kPrefillRows * widest_in);
  Random random(1, "speed_probe");
  std::generate_n(input, kPrefillRows * widest_in,
                  [&random] { return static_cast<float>(random.Normal()); });
  output_.Reserve<float>(kPrefillRows * widest_out);
}

double CpuSpeedProbe::Multiply(const ModelMatrices::Layer& layer, std::int64_t rows) {
  const auto begin = std::chrono::steady_clock::now();
  for (const kernels::WeightView* w : layer.present()) {
    const auto x = kernels::DenseMatrix(input_.Reserve<float>(rows * w->columns), rows, w->columns);
    const auto y = kernels::DenseMatrix(output_.Reserve<float>(rows * w->rows), rows, w->rows);
    kernels::Gemm(pool_, x, *w, {}, y);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

ProbeSeconds CpuSpeedProbe::Run() {
  // Each product reads another layer, because the first one leaves its layer in the caches.
  const auto layer = [this]() -> const ModelMatrices::Layer& {
    next_layer_ = (next_layer_ + 1) % matrices_.layers.size();
    return matrices_.layers[next_layer_];
  };
  const double decode = Multiply(layer(), 1);
  return {decode, Multiply(layer(), kPrefillRows)};
}

}  // namespace

std::unique_ptr<SpeedProbe> CpuModel::MakeSpeedProbe() {
  // Layers of different sizes would look like a change of speed.
  if (!HasPlainLayers(config_.shape)) return nullptr;
  return std::make_unique<CpuSpeedProbe>(MatricesOf(*weights_), pool_);
}

}  // namespace twin::exec
