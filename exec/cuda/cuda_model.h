// A decoder-only transformer on a CUDA device, or one rank's share of it: tokens in, logits out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/cuda/activations.h"
#include "exec/cuda/device.h"
#include "exec/cuda/device_communicator.h"
#include "exec/cuda/device_weights.h"
#include "exec/cuda/load_model.h"
#include "exec/cuda/step_arena.h"
#include "exec/cuda/step_clock.h"
#include "exec/device_model.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/rope_append.h"

namespace twin::exec::cuda {

// A batch as the kernels see it.
struct DeviceBatch {
  StepShape shape;
  StepArrays arrays;                      // in device memory
  const std::int32_t* sampled = nullptr;  // the ring that carried tokens are taken from
  bool every_row_has_logits = false;      // row i of the logits is row i of the batch
};

// Activations are of the weights' format, beside fp8 of bf16; sums fp32, logits fp32. One caller at
// a time.
//
// Ranks of a stage sum the products of both halves of every layer, and the embedding, as CpuModel
// does; all ranks capture and replay alike.
class CudaModel final : public DeviceModel {
 public:
  // Takes the device as the calling thread's. Throws what LoadCudaModel throws.
  CudaModel(const CudaModelOptions& options, std::unique_ptr<Device> device, DeviceWeights weights);
  ~CudaModel() override;

  [[nodiscard]] const ModelConfig& config() const override { return options_.config; }
  [[nodiscard]] const RankLinks& links() const override { return options_.links; }
  [[nodiscard]] std::int32_t positions() const override { return options_.positions; }
  [[nodiscard]] const ModelConfig& share() const override { return share_; }
  std::unique_ptr<Executor> MakeExecutor(const ExecutorConfig& config) override;
  std::unique_ptr<Operations> MakeOperations(const kernels::KvCacheView& cache) override;
  [[nodiscard]] ModelWork WorkWith(DType kv_dtype) const override;
  [[nodiscard]] std::vector<std::uint32_t> decode_buckets() const override;

  // Room for steps of this size. Where it grows, waits for the device and returns true: graphs
  // captured before are stale. Throws DeviceError.
  bool Reserve(std::int64_t rows, std::int64_t logit_rows);

  // Gives the computation of a batch to the compute stream: keys and values go into the cache, the
  // result is the logits [logit rows, vocab], overwritten by the next call; of a stage that is not
  // the last, no rows. Attention has been planned for the batch. REQUIRES: room is reserved.
  kernels::cuda::DeviceMatrix Forward(const DeviceBatch& batch, const kernels::KvCacheView& cache,
                                      kernels::cuda::PagedAttention& attention, LapEvents& laps);

  // Attention over a cache of this model, for steps of at most so many rows and sequences.
  [[nodiscard]] std::unique_ptr<kernels::cuda::PagedAttention> MakeAttention(
      std::int64_t block_size, const StepShape& room) const;
  // What lies between a layer's first product and its attention.
  [[nodiscard]] kernels::cuda::RopeAppendOptions RopeOptionsOf(const DeviceLayer& layer) const;
  // What lies between the products of a layer's second half.
  void Activate(const DeviceLayer& layer, kernels::cuda::DeviceMatrix inner,
                kernels::cuda::DeviceMatrix activated) const;

  [[nodiscard]] const CudaModelOptions& options() const { return options_; }
  // The KV cache's too.
  [[nodiscard]] DType activation_format() const { return ActivationFormat(options_.format); }
  [[nodiscard]] const DeviceWeights& weights() const { return weights_; }
  [[nodiscard]] Device& device() const { return *device_; }
  [[nodiscard]] Activations& activations() { return activations_; }
  [[nodiscard]] bool works_with_others() const { return tensor_ != nullptr || stages_ != nullptr; }
  // False where ranks exchange activations in a way that no graph can hold.
  [[nodiscard]] bool capturable() const;
  // Of a stage that is the last, or alone.
  [[nodiscard]] kernels::cuda::DeviceNorm NormOf(const DeviceNormWeights& norm) const;

  // Waits for a moment of the compute stream; where ranks work together, no longer than they may
  // take. Throws DeviceError, CommunicationError.
  void AwaitStep(const Event& moment) const;

  // y = W x on the compute stream; x is quantized first where W is. REQUIRES: x and y are
  // activations, rows of x are reserved.
  void Multiply(kernels::cuda::DeviceMatrix x, const DeviceLinear& linear,
                kernels::cuda::DeviceMatrix y);

  // A line for each reason why this build or device computes the model more slowly than it could.
  [[nodiscard]] std::vector<std::string> SlowParts() const;

  // Measures the products of these batch sizes where the algorithm cache does not know them.
  void Tune(std::span<const std::int64_t> rows);

 private:
  using Matrix = kernels::cuda::DeviceMatrix;

  [[nodiscard]] kernels::cuda::AttentionShape AttentionShapeOf(std::int64_t block_size) const;
  void Embed(const DeviceBatch& batch, LapEvents& laps);
  void Attend(const DeviceBatch& batch, std::size_t layer, Matrix input,
              const kernels::KvCacheView& cache, kernels::cuda::PagedAttention& attention,
              LapEvents& laps);
  Matrix ComputeMlp(const DeviceLayer& layer, Matrix input, LapEvents& laps);
  // What a half of a layer adds to the residual stream; returns what the next half reads, by the
  // norm `next`, null behind the last one.
  Matrix AddHalf(Matrix result, const DeviceLinear& projection, const DeviceNormWeights& norm,
                 const DeviceNormWeights& post_norm, const DeviceNormWeights* next,
                 LapEvents& laps);
  // The norm behind layer `layer`'s second half, null where none follows at once.
  const DeviceNormWeights* NormBehind(std::size_t layer, const DeviceBatch& batch) const;
  Matrix Logits(const DeviceBatch& batch, Matrix last, LapEvents& laps);
  Matrix GatherLogits(Matrix head_input, LapEvents& laps);
  // REQUIRES: what came before it has got its lap.
  void Multiply(Matrix x, const DeviceLinear& linear, Matrix y, LapEvents& laps);
  void Sum(Matrix values, LapEvents& laps);

  CudaModelOptions options_;
  ModelConfig share_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceCommunicator> tensor_;
  std::unique_ptr<DeviceCommunicator> stages_;
  DeviceWeights weights_;
  DeviceBuffer rope_;
  Activations activations_;
};

}  // namespace twin::exec::cuda
