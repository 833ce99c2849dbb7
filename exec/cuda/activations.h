// Device buffers for the activations of one forward pass.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/model_spec.h"
#include "exec/cuda/device_memory.h"
#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/routing.h"

namespace twin::exec::cuda {

// The number of experts in a mixture, and the widths of one expert.
struct MixtureWidths {
  std::int32_t experts = 0;  // 0 if the model has no mixtures
  std::int32_t experts_per_row = 0;
  std::int64_t inner = 0;      // output of the up projection
  std::int64_t activated = 0;  // input of the down projection
};

// Widths of the activations in elements, for this rank's share of a model.
struct ActivationWidths {
  std::int64_t hidden = 0;
  std::int64_t qkv = 0;
  std::int64_t queries = 0;
  std::int64_t inner = 0;      // output of the up projection; in a mixture: of the shared expert's
  std::int64_t activated = 0;  // input of the down projection; in a mixture: of the shared expert's
  std::int64_t embedding = 0;  // of the embedding, if it is projected; otherwise 0
  std::int64_t logits = 0;     // of all ranks together
  std::int64_t own_logits = 0;  // of one rank, if logits are gathered from ranks; otherwise 0
  std::int64_t ranks = 1;       // number of ranks that logits are gathered from
  std::int64_t quantized = 0;   // widest input of an fp8 matrix; 0 if there is none
  MixtureWidths mixture = {};
};

// One device allocation for all activations. Rows are aligned to 16 bytes; the strides of formats
// other than fp32 are multiples of kFp8Sizes. Reserve() invalidates all views if it grows.
class Activations {
 public:
  Activations() = default;
  explicit Activations(const ActivationWidths& widths) : widths_(widths) {}

  // Makes room for a pass of this size. Returns true if it allocated new memory. REQUIRES: no work
  // on the device uses the activations.
  bool Reserve(std::int64_t rows, std::int64_t logit_rows);
  // Bytes that Reserve would allocate.
  [[nodiscard]] std::int64_t BytesOf(std::int64_t rows, std::int64_t logit_rows) const;
  [[nodiscard]] bool Holds(std::int64_t rows, std::int64_t logit_rows) const {
    return rows <= rows_ && logit_rows <= logit_rows_;
  }

  // Views of the first `rows` rows of each activation.
  [[nodiscard]] kernels::cuda::DeviceMatrix residual(std::int64_t rows) const;
  [[nodiscard]] kernels::cuda::DeviceMatrix normed(std::int64_t rows) const;
  [[nodiscard]] kernels::cuda::DeviceMatrix qkv(std::int64_t rows) const;
  [[nodiscard]] kernels::cuda::DeviceMatrix attended(std::int64_t rows) const;
  [[nodiscard]] kernels::cuda::DeviceMatrix inner(std::int64_t rows) const;
  [[nodiscard]] kernels::cuda::DeviceMatrix activated(std::int64_t rows) const;
  [[nodiscard]] kernels::cuda::DeviceMatrix narrow(std::int64_t rows) const;
  [[nodiscard]] kernels::cuda::DeviceMatrix logits(std::int64_t rows) const;
  [[nodiscard]] kernels::cuda::DeviceMatrix own_logits(std::int64_t rows) const;
  // Quantized inputs with `columns` columns, for fp8 products.
  [[nodiscard]] kernels::cuda::ScaledMatrix quantized(std::int64_t rows,
                                                      std::int64_t columns) const;
  // For mixtures, with a batch of `rows` rows: the logits of the router in fp32, the experts that
  // each row is routed to, the results of the experts by place, and the result of the shared
  // expert.
  [[nodiscard]] kernels::cuda::DeviceMatrix router_logits(std::int64_t rows) const;
  [[nodiscard]] kernels::cuda::RoutedPairs routed(std::int64_t rows) const;
  [[nodiscard]] kernels::cuda::DeviceMatrix expert_inner(std::int64_t rows) const;
  [[nodiscard]] kernels::cuda::DeviceMatrix expert_activated(std::int64_t rows) const;
  [[nodiscard]] kernels::cuda::DeviceMatrix expert_outputs(std::int64_t rows) const;
  [[nodiscard]] kernels::cuda::DeviceMatrix shared_output(std::int64_t rows) const;
  // The gathered logits, dense: [ranks][rows][own_logits].
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
    kRouterLogits,
    kRouting,
    kExpertInner,
    kExpertActivated,
    kExpertOutputs,
    kSharedOutput,
    kPlaces
  };
  struct Layout {
    std::int64_t first[kPlaces] = {};
    std::int64_t rows[kPlaces] = {};
    std::int64_t bytes = 0;
  };

  [[nodiscard]] Layout LayoutOf(std::int64_t rows, std::int64_t logit_rows) const;
  [[nodiscard]] kernels::cuda::DeviceMatrix At(Place place, DType dtype, std::int64_t rows,
                                               std::int64_t columns) const;
  [[nodiscard]] kernels::cuda::RoutingShape RoutingOf(std::int64_t rows) const;

  ActivationWidths widths_;
  DeviceBuffer buffer_;
  Layout layout_;
  std::int64_t rows_ = 0;
  std::int64_t logit_rows_ = 0;
};

}  // namespace twin::exec::cuda
