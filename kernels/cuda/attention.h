// Attention of a ragged batch over a paged KV cache on a device. CPU twin:
// kernels/paged_attention.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"
#include "kernels/kv_cache.h"

namespace twin::kernels::cuda {

struct AttentionShape {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t block_size = 0;
  DType dtype = DType::kBf16;         // queries, cache and output: bf16 or fp16
  float scale = 1;                    // of the scores
  float logit_cap = 0;                // as AttentionOptions
  std::vector<std::int64_t> windows;  // each distinct one of the model's layers; 0: all
};

// Sequences in the order of their rows, the ones with one query first. Page lists are those of the
// block tables: sequence s has the blocks page_indices[page_begin[s]..page_begin[s + 1] - 1].
// A sequence without pages has no keys: its output is zero.
struct AttentionArrays {
  const std::int32_t* first_query = nullptr;  // [sequences + 1]
  const std::int32_t* kv_lengths = nullptr;   // [sequences]
  const std::int32_t* page_begin = nullptr;   // [sequences + 1]
  const std::int32_t* page_indices = nullptr;
  const std::int32_t* last_page_tokens = nullptr;  // [sequences], 1..block_size
};

struct AttentionWork {
  std::int64_t sequences = 0;
  std::int64_t decodes = 0;  // the first ones, of one query each
  std::int64_t rows = 0;     // = first_query[sequences]
  AttentionArrays host;      // for planning; read before Plan returns
  AttentionArrays device;    // for the kernels; contents may come with the same stream
  // All sequences are decodes and the launches are going to be captured, or replayed: grid and
  // buffers depend on `sequences` alone.
  bool graph = false;
};

// Which kernels an attention runs with. kGeneric takes everything; the others are FlashInfer's.
enum class AttentionKernel : std::uint8_t { kGeneric, kFa2, kFa3, kCudaCore };
std::string_view Name(AttentionKernel kernel);

struct AttentionChoice {
  AttentionKernel decode = AttentionKernel::kGeneric;
  AttentionKernel prefill = AttentionKernel::kGeneric;
  std::int64_t fa3_queries_min = 64;  // mean queries of a prefill from which kFa3 is used
};

// The best that this build has for the shape on a device of that compute capability (90: 9.0).
AttentionChoice BestAttention(const AttentionShape& shape, int compute_capability);
// Why a kernel cannot serve a shape; empty if it can.
std::string WhyNotAttention(AttentionKernel kernel, const AttentionShape& shape,
                            int compute_capability);

// Plans once a step, for all layers; then runs layer by layer. One stream at a time.
class PagedAttention {
 public:
  // `rows_max`, `sequences_max`: of any step; more are refused (CHECK). Takes workspaces on the
  // device and pinned ones on the host. Throws DeviceError.
  PagedAttention(const AttentionShape& shape, const AttentionChoice& choice, std::int64_t rows_max,
                 std::int64_t sequences_max);
  ~PagedAttention();
  PagedAttention(const PagedAttention&) = delete;
  PagedAttention& operator=(const PagedAttention&) = delete;

  // Splits the work over the device and sends the plan along the stream. Not under capture: plan
  // first, capture or replay behind it. May be called for a further step before the last one ran:
  // host memory that is still being sent is not touched (the third call waits for the first).
  void Plan(StreamView stream, const AttentionWork& work);

  // out = attention of q (rows of any stride) over `layer`; of the work planned last.
  // Shapes: q, out [rows, heads * head_dim]; out without gaps between rows. `window` as in
  // AttentionShape::windows. Error: against double over the stored keys and values, relative to the
  // largest |v| in sight: 1e-2 (bf16), 2e-3 (fp16).
  void Run(StreamView stream, DeviceMatrix q, const KvCacheView& cache, std::int64_t layer,
           std::int64_t window, DeviceMatrix out);

  [[nodiscard]] std::int64_t device_bytes() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace twin::kernels::cuda
