// Paged attention on a device: a ragged batch of queries over a paged KV cache.
// CPU twin: kernels/paged_attention.h.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/model_options.h"
#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"
#include "kernels/kv_cache.h"

namespace twin::kernels::cuda {

struct AttentionShape {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t block_size = 0;
  DType dtype = DType::kBf16;         // queries, cache and output: bf16
  float scale = 1;                    // factor of the scores
  float logit_cap = 0;                // as in AttentionOptions
  std::vector<std::int64_t> windows;  // distinct window sizes of the layers; 0 = no window
};

// Per-sequence arrays, in the order of the sequences' rows; decodes (one query each) come first.
// Pages are the blocks of the block tables: sequence s has the blocks
// page_indices[page_begin[s]..page_begin[s + 1] - 1]. A sequence without pages has no keys, and its
// output is zero.
struct AttentionArrays {
  const std::int32_t* first_query = nullptr;  // [sequences + 1]
  const std::int32_t* kv_lengths = nullptr;   // [sequences]
  const std::int32_t* page_begin = nullptr;   // [sequences + 1]
  const std::int32_t* page_indices = nullptr;
  const std::int32_t* last_page_tokens = nullptr;  // [sequences], 1..block_size
};

struct AttentionWork {
  std::int64_t sequences = 0;
  std::int64_t decodes = 0;  // the first `decodes` sequences have one query each
  std::int64_t rows = 0;     // = first_query[sequences]
  AttentionArrays host;      // used for planning; read before Plan returns
  AttentionArrays device;    // read by the kernels, in stream order
  // PagedAttention::PlanBytes() bytes on the host and on the device, aligned to 16. Plan() writes
  // to host_plan; the caller copies it to device_plan before the kernels run.
  std::byte* host_plan = nullptr;
  std::byte* device_plan = nullptr;
  // For graph capture and replay: grids and buffers depend on `sequences` alone. REQUIRES: all
  // sequences are decodes.
  bool graph = false;
};

// A way to compute the attention of decodes. In graphs kFa2 cuts the keys into pieces and merges
// their results, or leaves the keys of each sequence whole.
struct DecodeWay {
  AttentionKernel kernel = AttentionKernel::kGeneric;
  // The most pieces, in multiples of what the device computes at once. 0 = keys are whole. 1 suits
  // few sequences. Larger numbers allow as many further pieces as there are sequences; they suit
  // sequences of unequal lengths, of which the longest would otherwise be computed alone at the
  // end.
  std::int32_t waves = 1;

  auto operator<=>(const DecodeWay&) const = default;
};

// The fastest way for at least `decodes_min` decodes.
struct MeasuredDecodes {
  std::int64_t decodes_min = 0;
  DecodeWay way;

  bool operator==(const MeasuredDecodes&) const = default;
};

struct AttentionChoice {
  AttentionKernel decode = AttentionKernel::kGeneric;
  AttentionKernel prefill = AttentionKernel::kGeneric;
  // kFa3 is used from this mean number of queries per prefill on; from `fa3_queries_min_of_few` on
  // if a step has fewer than `few_prefills` prefills.
  std::int64_t fa3_queries_min = 64;
  std::int64_t fa3_queries_min_of_few = 64;
  std::int64_t few_prefills = 0;
  // Ascending. For fewer decodes than the first entry's, `decode` is used, and an estimate decides
  // whether to cut.
  std::vector<MeasuredDecodes> measured = {};
  // True: if all prefills of a step begin at position 0, kFa3 reads their keys and values from the
  // step's rows, as whole tiles, instead of gathering them from the cache.
  bool fa3_reads_rows = true;
};

// The preferred kernels of this build for a shape and a compute capability (90 means 9.0).
AttentionChoice BestAttention(const AttentionShape& shape, int compute_capability);
// The kernels if one is asked for, to work around another kernel: kFa3 = the preferred kernels;
// kFa2 = the preferred ones without kFa3; kCudaCore = it for decodes and kFa2 for prefills;
// kGeneric = it for both. REQUIRES: the asked kernel supports the shape (WhyNotAttention).
AttentionChoice AttentionWith(AttentionKernel asked, const AttentionShape& shape,
                              int compute_capability);
// True if decodes are computed by the asked kernel alone, so that no ways of decodes are compared.
constexpr bool FixesDecodes(AttentionKernel asked) {
  return asked == AttentionKernel::kCudaCore || asked == AttentionKernel::kGeneric;
}
// The reason why a kernel does not support a shape; empty if it does.
std::string WhyNotAttention(AttentionKernel kernel, const AttentionShape& shape,
                            int compute_capability);

// Paged attention of one model. Plan() is called once per step and serves all layers; Run() is
// called for each layer. Not for several streams at the same time.
class PagedAttention {
 public:
  // `rows_max` and `sequences_max` limit every step (CHECK). Allocates a workspace in device
  // memory. Throws DeviceError.
  PagedAttention(const AttentionShape& shape, const AttentionChoice& choice, std::int64_t rows_max,
                 std::int64_t sequences_max);
  ~PagedAttention();
  PagedAttention(const PagedAttention&) = delete;
  PagedAttention& operator=(const PagedAttention&) = delete;

  // Bytes of the plan of a step with the sequences, decodes and rows of `work`, whose arrays are
  // not read. Equal numbers give equal sizes.
  [[nodiscard]] std::int64_t PlanBytes(const AttentionWork& work) const;
  // Bytes of the plan of the largest step within the limits.
  [[nodiscard]] std::int64_t PlanBytesMax() const;
  // Distributes the work over the multiprocessors. Call it before a capture or a replay, never
  // during a capture. It may be called for the next step before the previous ones have run. Throws
  // DeviceError.
  void Plan(const AttentionWork& work);

  // True if Run() reads keys and values from qkv, for the work of the last Plan().
  [[nodiscard]] bool ReadsKeysOfRows() const;

  // Sets `out` to the attention of the queries over the cache's `layer`, for the work of the last
  // Plan(). Shapes: qkv [rows, (heads + 2 * kv_heads) * head_dim], of queries, keys and values,
  // with any row stride (FlashInfer's kernels: a multiple of 16 bytes); out [rows, heads *
  // head_dim], dense.
  // REQUIRES: `window` is one of AttentionShape::windows. If ReadsKeysOfRows(), the keys and values
  // in qkv are equal to the cache's, and finite in all rows of prefills. Error: relative to the
  // largest |v| that the query attends to, 1e-2; the reference computes in double precision from
  // the stored keys and values.
  void Run(StreamView stream, DeviceMatrix qkv, const KvCacheView& cache, std::int64_t layer,
           std::int64_t window, DeviceMatrix out);

  [[nodiscard]] std::int64_t device_bytes() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace twin::kernels::cuda
