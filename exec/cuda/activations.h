// The activations of one pass of a model on a device.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/model_spec.h"
#include "exec/cuda/device_memory.h"
#include "kernels/cuda/device_matrix.h"

namespace twin::exec::cuda {

// How wide they are: of this rank's share of a model.
struct ActivationWidths {
  DType dtype = DType::kBf16;  // of all but logits and quantized rows
  std::int64_t hidden = 0;
  std::int64_t qkv = 0;
  std::int64_t queries = 0;
  std::int64_t inner = 0;       // what comes out of the up projection
  std::int64_t activated = 0;   // what goes into the down projection
  std::int64_t embedding = 0;   // where the embedding is projected; else 0
  std::int64_t logits = 0;      // of all ranks together
  std::int64_t own_logits = 0;  // of one rank, where they are gathered from several; else 0
  std::int64_t ranks = 1;       // they are gathered from
  std::int64_t quantized = 0;   // what goes into any matrix of fp8 at most; 0 where there is none
};

// One allocation for all; rows are 16-byte aligned, strides of those that are not fp32 multiples of
// kFp8Sizes. Views change when Reserve() grows it.
class Activations {
 public:
  Activations() = default;
  explicit Activations(const ActivationWidths& widths) : widths_(widths) {}

  // True if it grew: then the memory is new. REQUIRES: the device has no work in it.
  bool Reserve(std::int64_t rows, std::int64_t logit_rows);
  // Memory that Reserve would take.
  [[nodiscard]] std::int64_t BytesOf(std::int64_t rows, std::int64_t logit_rows) const;
  [[nodiscard]] bool Holds(std::int64_t rows, std::int64_t logit_rows) const {
    return rows <= rows_ && logit_rows <= logit_rows_;
  }

  // The first `rows` rows of each.
  [[nodiscard]] kernels::cuda::DeviceMatrix residual(std::int64_t rows) const;
  [[nodiscard]] kernels::cuda::DeviceMatrix normed(std::int64_t rows) const;
  [[nodiscard]] kernels::cuda::DeviceMatrix qkv(std::int64_t rows) const;
  [[nodiscard]] kernels::cuda::DeviceMatrix attended(std::int64_t rows) const;
  [[nodiscard]] kernels::cuda::DeviceMatrix inner(std::int64_t rows) const;
  [[nodiscard]] kernels::cuda::DeviceMatrix activated(std::int64_t rows) const;
  [[nodiscard]] kernels::cuda::DeviceMatrix narrow(std::int64_t rows) const;
  [[nodiscard]] kernels::cuda::DeviceMatrix logits(std::int64_t rows) const;
  [[nodiscard]] kernels::cuda::DeviceMatrix own_logits(std::int64_t rows) const;
  // Rows of so many columns as products of fp8 matrices take them.
  [[nodiscard]] kernels::cuda::ScaledMatrix quantized(std::int64_t rows,
                                                      std::int64_t columns) const;
  // [ranks][rows][own_logits] without gaps.
  [[nodiscard]] float* gathered_logits() const;

 private:
  enum Place : std::uint8_t {
    kResidual,
    kNormed,
    kQkv,
    kAttended,
    kInner,
    kActivated,
    kNarrow,
    kLogits,
    kOwnLogits,
    kGathered,
    kQuantized,
    kScales,
    kPlaces
  };
  struct Layout {
    std::int64_t first[kPlaces] = {};
    std::int64_t bytes = 0;
  };

  [[nodiscard]] Layout LayoutOf(std::int64_t rows, std::int64_t logit_rows) const;
  [[nodiscard]] kernels::cuda::DeviceMatrix At(Place place, DType dtype, std::int64_t rows,
                                               std::int64_t columns) const;

  ActivationWidths widths_;
  DeviceBuffer buffer_;
  Layout layout_;
  std::int64_t rows_ = 0;
  std::int64_t logit_rows_ = 0;
};

}  // namespace twin::exec::cuda
