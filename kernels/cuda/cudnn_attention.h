// A second opinion on attention, from cuDNN: for tests and benchmarks of builds with TWIN_CUDNN.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cuda/attention.h"

namespace twin::kernels::cuda {

// What a plan of cuDNN is for, exactly.
struct CudnnAttentionSizes {
  std::int64_t sequences = 0;
  std::int64_t queries_max = 1;  // of a sequence; 1: decodes alone
  std::int64_t context_max = 1;  // tokens of a sequence
};

// Why cuDNN cannot be asked about such a shape, one line: no library, a cap of scores, windows.
// Empty if it can.
std::string WhyNotCudnn(const AttentionShape& shape);

// Attention of one size of steps over one cache. cuDNN compiles its kernel when this is made: some
// seconds. One stream at a time.
class CudnnAttention {
 public:
  // `q_stride`: elements from one row of queries to the next. REQUIRES: WhyNotCudnn() is empty, the
  // cache is of the shape's format. Throws DeviceError that has cuDNN's words.
  CudnnAttention(const AttentionShape& shape, const KvCacheShape& cache,
                 const CudnnAttentionSizes& sizes, std::int64_t q_stride);
  ~CudnnAttention();
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  // Sends lengths and dense page tables, and waits for them. REQUIRES: as many sequences as the
  // sizes say, none longer, each with pages.
  void Plan(StreamView stream, const AttentionWork& work);
  // As PagedAttention::Run without a window, of the work planned last.
  void Run(StreamView stream, DeviceMatrix q, const KvCacheView& cache, std::int64_t layer,
           DeviceMatrix out);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace twin::kernels::cuda
