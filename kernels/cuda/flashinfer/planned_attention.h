// The interface of attention kernels whose work is split on the host first. It expresses what is
// needed of FlashInfer without its types. Internal to PagedAttention.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kernels/cuda/attention.h"

namespace twin::kernels::cuda {

// Consecutive sequences of a step. The arrays begin with the entries of the first one; their values
// (rows, places in page_indices) count from the step's beginning.
struct AttentionPart {
  std::int64_t sequences = 0;
  std::int64_t first_row = 0;  // host.first_query[0]
  std::int64_t rows = 0;       // of these sequences
  // True for prefills by kFa3 that all begin at position 0: kFa3 reads their keys and values from
  // the step's rows instead of the cache.
  bool fresh = false;
  AttentionArrays host;
  AttentionArrays device;
  bool graph = false;
  std::optional<std::int32_t> waves = {};  // of decodes in a graph: DecodeWay::waves
};

// The memory of a plan. The planner writes to `host`; the caller copies `int_bytes` from there to
// `ints`.
struct PlanMemory {
  std::byte* floats = nullptr;  // partial results of sequences that are split
  std::byte* ints = nullptr;    // on the device
  std::byte* host = nullptr;
  std::size_t float_bytes = 0;
  std::size_t int_bytes = 0;
};

// q, k, v and out of the whole step; k and v are read only for a part that is `fresh`.
struct AttentionCall {
  DeviceMatrix q;
  DeviceMatrix k;
  DeviceMatrix v;
  KvCacheView cache;
  std::int64_t layer = 0;
  DeviceMatrix out;
};

// One kernel for one window.
class PlannedAttention {
 public:
  virtual ~PlannedAttention() = default;

  // Splits the part's work and writes the split to `memory`, which must stay until the kernels
  // have run. Sends nothing to the device. Throws std::exception.
  virtual void Plan(const AttentionPart& part, const PlanMemory& memory) = 0;
  // Computes the part that was planned last. Throws std::exception.
  virtual void Run(StreamView stream, const AttentionCall& call) const = 0;
};

// The kernels of FlashInfer that this build contains.
struct FlashInferBuild {
  bool fa2 = false;  // and the CUDA-core kernel
  bool fa3 = false;
  std::string version;  // of FlashInfer; empty if the build has none
};
FlashInferBuild BuiltWithFlashInfer();

// REQUIRES: WhyNotAttention() is empty, and the kernel is not kGeneric.
std::unique_ptr<PlannedAttention> MakePlannedAttention(AttentionKernel kernel,
                                                       const AttentionShape& shape,
                                                       std::int64_t window);

// The number of multiprocessors of the calling thread's device.
std::int64_t Multiprocessors();

// Upper limits of the work of a plan.
struct PlanLimits {
  std::int64_t rows = 0;
  std::int64_t sequences = 0;
  std::int64_t multiprocessors = 0;
};
struct PlanSizes {
  std::size_t float_bytes = 0;
  std::size_t int_bytes = 0;
};
// Pages per piece when kFa2 cuts a part's keys; -1: kFa2 chooses within PiecesMax(). Without a
// fixed size, decodes of a graph are computed in parts and merged even if they have one piece.
// part.waves decides whether the size is fixed. Without it, an estimate decides: from half of the
// device's room for sequences on, sequences of one length are no longer cut in two; from three
// quarters on, no sequence is cut and merged.
std::int32_t FixedPiece(const AttentionPart& part, const AttentionShape& shape,
                        std::int64_t multiprocessors);

// The largest number of waves of a DecodeWay.
constexpr std::int32_t kWavesMax = 4;
// The most pieces that kFa2 may cut the keys of `sequences` decodes of a graph into.
constexpr std::int64_t PiecesMax(std::int64_t sequences, std::int32_t waves,
                                 const AttentionShape& shape, std::int64_t multiprocessors) {
  const std::int64_t at_once = 2 * multiprocessors / shape.kv_heads;
  return waves <= 1 ? at_once : waves * at_once + sequences;
}

PlanSizes SizesOfPlan(AttentionKernel kernel, const AttentionShape& shape,
                      const PlanLimits& limits);

}  // namespace twin::kernels::cuda
