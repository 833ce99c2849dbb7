// Attention by cuDNN, as a reference in tests and benchmarks. Only in builds with TWIN_CUDNN.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cuda/attention.h"

namespace twin::kernels::cuda {

// Sizes of a batch. A plan of cuDNN is compiled for them and serves no other sizes.
struct CudnnAttentionSizes {
  std::int64_t sequences = 0;
  std::int64_t queries_max = 1;  // per sequence; 1 = decodes only
  std::int64_t context_max = 1;  // tokens per sequence
};

// The reason why cuDNN cannot compute the shape, in one line: the library is missing, or the shape
// has a logit cap or windows. Empty if cuDNN can compute it.
std::string WhyNotCudnn(const AttentionShape& shape);

// Attention for batches of one size over one cache. The constructor takes some seconds, because
// cuDNN compiles the kernel. Not for several streams at the same time.
class CudnnAttention {
 public:
  // `q_stride` is the row stride of the queries, in elements. REQUIRES: WhyNotCudnn() is empty; the
  // cache has the format of the shape. Throws DeviceError with the message of cuDNN.
  CudnnAttention(const AttentionShape& shape, const KvCacheShape& cache,
                 const CudnnAttentionSizes& sizes, std::int64_t q_stride);
  ~CudnnAttention();
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  // Copies the lengths and dense page tables to the device and waits for the copies. REQUIRES: the
  // number of sequences equals that of the sizes; no sequence is longer than they allow; each has
  // pages.
  void Plan(StreamView stream, const AttentionWork& work);
  // As PagedAttention::Run without a window, for the work of the last Plan().
  void Run(StreamView stream, DeviceMatrix q, const KvCacheView& cache, std::int64_t layer,
           DeviceMatrix out);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace twin::kernels::cuda
