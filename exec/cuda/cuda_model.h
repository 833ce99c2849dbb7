// Forward pass of a decoder-only transformer, or of one rank's share of it, on a CUDA device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
#include "exec/profile/mixture_part.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/rope_append.h"

namespace twin::exec::cuda {

inline kernels::cuda::Fp8Accumulation AccumulationOf(const CudaModelOptions& options) {
  using Accumulation = kernels::cuda::Fp8Accumulation;
  return options.model_options.fp8_fast_accumulation ? Accumulation::kFast
                                                     : Accumulation::kAccurate;
}

// A batch as input of the kernels.
struct DeviceBatch {
  StepShape shape;
  StepArrays arrays;                      // in device memory
  const std::int32_t* sampled = nullptr;  // ring buffer of the carried tokens
  bool every_row_has_logits = false;      // row i of the logits is row i of the batch
};

// Activations have the format of the weights, or bf16 if the weights are fp8 or int4. Sums and
// logits are fp32. Not thread-safe.
//
// The ranks of a stage all-reduce the results of attention and MLP in every layer, and the
// embedding, as CpuModel does. All ranks must capture and replay the same graphs in the same order.
class CudaModel final : public DeviceModel {
 public:
  // Makes the device current on the calling thread. Throws what LoadCudaModel throws.
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

  // Reserves activations for steps of this size. If it has to grow, it waits for the device and
  // returns true; graphs captured before are then invalid. Throws DeviceError.
  bool Reserve(std::int64_t rows, std::int64_t logit_rows);

  // Enqueues the forward pass of a batch on the compute stream. Writes keys and values to the
  // cache. Returns the logits [logit rows, vocab], which the next call overwrites, or a matrix
  // without rows if this is not the last stage. REQUIRES: attention is planned for the batch, and
  // Reserve() was called for its size.
  kernels::cuda::DeviceMatrix Forward(const DeviceBatch& batch, const kernels::KvCacheView& cache,
                                      kernels::cuda::PagedAttention& attention, LapEvents& laps);

  // The block size for which attention is described before there is a cache.
  static constexpr std::int64_t kUsualBlockSize = 16;
  [[nodiscard]] kernels::cuda::AttentionShape AttentionShapeOf(std::int64_t block_size) const;
  // Makes attention over a cache of this model, for steps within the rows and sequences of `room`.
  [[nodiscard]] std::unique_ptr<kernels::cuda::PagedAttention> MakeAttention(
      std::int64_t block_size, const StepShape& room) const;
  // Parameters of the operations between a layer's first product and its attention.
  [[nodiscard]] kernels::cuda::RopeAppendOptions RopeOptionsOf(const DeviceLayer& layer) const;
  // Enqueues the operations between the products of a layer's second half.
  void Activate(const DeviceLayer& layer, kernels::cuda::DeviceMatrix inner,
                kernels::cuda::DeviceMatrix activated) const;

  [[nodiscard]] const CudaModelOptions& options() const { return options_; }
  [[nodiscard]] const DeviceWeights& weights() const { return weights_; }
  [[nodiscard]] Device& device() const { return *device_; }
  [[nodiscard]] Activations& activations() { return activations_; }
  [[nodiscard]] bool works_with_others() const { return tensor_ != nullptr || stages_ != nullptr; }
  // False if the communication between ranks cannot be captured into a graph.
  [[nodiscard]] bool capturable() const;
  // The parameters of a norm, as the kernels take them.
  [[nodiscard]] kernels::cuda::DeviceNorm NormOf(const DeviceNormWeights& norm) const;

  // Waits for an event of the compute stream. With several ranks, the wait has a time limit; only
  // stages after the first may wait for the stage before them without one. Throws DeviceError,
  // CommunicationError.
  void AwaitStep(const Event& moment) const;

  using MixtureLap = std::function<void(MixturePart)>;
  // Computes y = the mixture of a layer for the rows of x, on the compute stream; calls lap after
  // each part. REQUIRES: x and y have the widths of the residual stream; y may be x.
  void MixExperts(const DeviceLayer& layer, kernels::cuda::DeviceMatrix x,
                  kernels::cuda::DeviceMatrix y, const MixtureLap& lap);

  // Computes y = W x on the compute stream. If W is int4, or fp8 on a device that does not multiply
  // fp8 matrices, W is widened: in the product for up to kWideningTokensMax rows of x, and before
  // the product for more. If W is fp8 on other devices, x is quantized first. REQUIRES: x and y are
  // activations; the rows of x are reserved.
  void Multiply(kernels::cuda::DeviceMatrix x, const DeviceLinear& linear,
                kernels::cuda::DeviceMatrix y);

  // Reasons why this build or device computes the model more slowly than possible, one line each.
  [[nodiscard]] std::vector<std::string> SlowParts() const;

  // Autotunes the matrix products that are not in the algorithm cache: products of
  // decode_buckets(), with logits, and products without logits of prefills of 64, 96, 128, 192 and
  // so on up to 8,192 tokens and of the largest step. Saves the cache after each size. A product
  // whose operands do not fit into the memory that is left is not tuned. Returns one line for each
  // product whose tuning failed otherwise: the first suggestion of cuBLASLt computes it. Throws
  // kernels::cuda::HungDevice.
  std::vector<std::string> TuneProducts();
  // Measures the ways to compute the attention of decodes that serve the model, at numbers of
  // decodes up to its largest graph and at a few lengths, as far as the cache holds them. Attention
  // that is made later uses the fastest. Ways whose times are in the algorithm cache are not
  // measured again; new times are saved in it. Does nothing if only one way serves or the options
  // name the kernels. Overwrites the activations.
  void TuneDecodes(const kernels::KvCacheView& cache);
  // Computes the products of a layer for each kernels::cuda::RoundedTokens() of steps up to the
  // largest, so that no step chooses an algorithm or loads its kernel. REQUIRES: activations of the
  // largest step are reserved.
  void LoadProducts();

 private:
  using Matrix = kernels::cuda::DeviceMatrix;

  // The shape that cuBLASLt multiplies for `tokens` tokens; nullopt if another kernel computes the
  // product.
  [[nodiscard]] std::optional<kernels::cuda::DeviceGemmShape> ProductShape(
      std::int64_t tokens, const DeviceLinear& linear, DType output) const;
  // The products of a step of `tokens` tokens, except products of experts.
  [[nodiscard]] std::vector<kernels::cuda::DeviceGemmShape> ProductShapes(std::int64_t tokens,
                                                                          bool logits) const;
  // Appends to `failures`. Returns true if the product has been tuned.
  bool TuneProduct(const kernels::cuda::DeviceGemmShape& shape, std::vector<std::string>& failures);
  // True if the options say how decodes are computed, so that no ways are measured.
  [[nodiscard]] bool decodes_are_fixed() const;
  [[nodiscard]] kernels::cuda::AttentionChoice ChoiceOf(
      const kernels::cuda::AttentionShape& shape) const;
  // True if decodes of the bucket are captured.
  [[nodiscard]] bool Wanted(std::int64_t bucket) const;
  void Embed(const DeviceBatch& batch, LapEvents& laps);
  void Attend(const DeviceBatch& batch, std::size_t layer, Matrix input,
              const kernels::KvCacheView& cache, kernels::cuda::PagedAttention& attention,
              LapEvents& laps);
  Matrix ComputeMlp(const DeviceLayer& layer, Matrix input, LapEvents& laps);
  // The mixture of a layer; `input` may take the place of the result.
  Matrix ComputeMixture(const DeviceLayer& layer, Matrix input, LapEvents& laps);
  // The norms around half a layer.
  struct HalfNorms {
    const DeviceNormWeights& own;
    const DeviceNormWeights& of_result;  // empty if there is none
    const DeviceNormWeights* next;       // of the next half; null after the last one
  };
  // Projects the result of attention or MLP and adds it to the residual stream.
  Matrix ProjectHalf(Matrix result, const DeviceLinear& projection, const HalfNorms& norms,
                     LapEvents& laps);
  // Adds what half a layer has computed to the residual stream; overwrites it. Returns the input of
  // the next half, normalised. `bias` may be null.
  Matrix AddHalf(Matrix delta, const float* bias, const HalfNorms& norms, LapEvents& laps);
  // The norm that directly follows the second half of `layer`; null if none does.
  const DeviceNormWeights* NormAfter(std::size_t layer, const DeviceBatch& batch) const;
  Matrix Logits(const DeviceBatch& batch, Matrix last, LapEvents& laps);
  Matrix GatherLogits(Matrix head_input, LapEvents& laps);
  // REQUIRES: the lap of the preceding operation is recorded.
  void Multiply(Matrix x, const DeviceLinear& linear, Matrix y, LapEvents& laps);
  void Sum(Matrix values, LapEvents& laps);
  // True if products with W widen it.
  [[nodiscard]] bool Widens(const DeviceLinear& linear) const;
  // Size of the largest matrix that is widened, in the activations' format; 0 if none is.
  [[nodiscard]] std::int64_t WidestBytes() const;
  // The place that a matrix is widened to.
  [[nodiscard]] Matrix Widened(const DeviceLinear& linear) const;
  // REQUIRES: Widens(linear).
  void MultiplyWidened(Matrix x, const DeviceLinear& linear, Matrix y);
  void MultiplyQuantized(Matrix x, const DeviceLinear& linear, Matrix y);

  CudaModelOptions options_;
  ModelConfig share_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceCommunicator> tensor_;
  std::unique_ptr<DeviceCommunicator> stages_;
  DeviceWeights weights_;
  DeviceBuffer rope_;
  std::vector<kernels::cuda::MeasuredDecodes> measured_decodes_;
  Activations activations_;
  DeviceBuffer widened_;  // of WidestBytes()
};

}  // namespace twin::exec::cuda
