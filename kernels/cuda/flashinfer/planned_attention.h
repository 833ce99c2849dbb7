// Attention kernels that want their work split on the host first: what is asked of FlashInfer, in
// words without its types. Internal to PagedAttention.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kernels/cuda/attention.h"

namespace twin::kernels::cuda {

// Some sequences of a step, one behind the other. The arrays begin with the first one's entries;
// their values (rows, places in page_indices) count from the step's beginning.
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

// Where a plan goes. It is written to `host`; the caller copies `int_bytes` from there to `ints`.
struct PlanMemory {
  std::byte* floats = nullptr;  // partial results of sequences that are split
  std::byte* ints = nullptr;    // on the device
  std::byte* host = nullptr;
  std::size_t float_bytes = 0;
  std::size_t int_bytes = 0;
};

// q, k, v and out are those of the whole step; k and v are read for a part that is `fresh`, alone.
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
  // Of the part planned last. Throws std::exception.
  virtual void Run(StreamView stream, const AttentionCall& call) const = 0;
};

// What this build was made with.
struct FlashInferBuild {
  bool fa2 = false;  // and the CUDA-core kernel
  bool fa3 = false;
  std::string version;  // of FlashInfer; empty if it is not there
};
FlashInferBuild BuiltWithFlashInfer();

// REQUIRES: WhyNotAttention() has nothing against it, and the kernel is not kGeneric.
std::unique_ptr<PlannedAttention> MakePlannedAttention(AttentionKernel kernel,
                                                       const AttentionShape& shape,
                                                       std::int64_t window);

// Of the calling thread's device.
std::int64_t Multiprocessors();

// What a plan needs at most.
struct PlanLimits {
  std::int64_t rows = 0;
  std::int64_t sequences = 0;
  std::int64_t multiprocessors = 0;
};
struct PlanSizes {
  std::size_t float_bytes = 0;
  std::size_t int_bytes = 0;
};
// Pages of the pieces that kFa2 is to cut a part's keys into; -1: as PiecesMax() allows. Decodes of
// a graph are partly computed and then merged, pieces or not, unless their pieces are fixed.
// part.waves says whether they are; otherwise an estimate does: from half of what the device has
// room for on, sequences of one length are not cut in two any more; from three quarters on, all are
// spared the cuts and the merging.
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
