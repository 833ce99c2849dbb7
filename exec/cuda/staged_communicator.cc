#include "exec/cuda/staged_communicator.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <span>
#include <vector>

#include "core/check.h"
#include "kernels/float_formats.h"

namespace twin::exec::cuda {
namespace {

std::size_t Unsigned(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }

}  // namespace

void StagedCommunicator::Reserve(std::int64_t bytes) {
  if (staged_.bytes() < bytes) staged_ = PinnedBuffer(bytes, "pinned memory for messages");
}

void StagedCommunicator::Fetch(StreamView stream, const void* values, std::int64_t bytes) {
  Reserve(bytes);
  CheckCuda(cudaMemcpyAsync(staged_.data(), values, Unsigned(bytes), cudaMemcpyDeviceToHost,
                            stream.get()),
            "a copy of a message");
  AwaitStream(stream, "work before a message");
}

void StagedCommunicator::Put(StreamView stream, const std::byte* from, void* values,
                             std::int64_t bytes) {
  CheckCuda(cudaMemcpyAsync(values, from, Unsigned(bytes), cudaMemcpyHostToDevice, stream.get()),
            "a copy of a message");
  // Wait, so that the next message can reuse the buffer.
  AwaitStream(stream, "a copy of a message");
}

void StagedCommunicator::AllReduceSum(StreamView stream, void* values, std::int64_t count,
                                      DType dtype) {
  CHECK(dtype == DType::kFp32 || dtype == DType::kBf16);
  const std::int64_t bytes = count * ByteSize(dtype);
  Fetch(stream, values, bytes);
  if (dtype == DType::kFp32) {
    host_.AllReduceSum({staged_.As<float>(), Unsigned(count)});
  } else {
    std::vector<float> wide(Unsigned(count));
    auto* const narrow = staged_.As<std::uint16_t>();
    for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = kernels::Bf16ToFloat(narrow[i]);
    host_.AllReduceSum(wide);
    for (std::size_t i = 0; i < wide.size(); ++i) narrow[i] = kernels::FloatToBf16(wide[i]);
  }
  Put(stream, staged_.data(), values, bytes);
}

void StagedCommunicator::AllGather(StreamView stream, const void* own, void* all,
                                   std::int64_t bytes) {
  Fetch(stream, own, bytes);
  const std::int64_t together = bytes * size();
  if (gathered_.bytes() < together) {
    gathered_ = PinnedBuffer(together, "pinned memory for messages");
  }
  host_.AllGather({staged_.data(), Unsigned(bytes)}, {gathered_.data(), Unsigned(together)});
  Put(stream, gathered_.data(), all, together);
}

void StagedCommunicator::Send(StreamView stream, const void* values, std::int64_t bytes,
                              std::int32_t to) {
  Fetch(stream, values, bytes);
  host_.Send({staged_.data(), Unsigned(bytes)}, to);
}

void StagedCommunicator::Receive(StreamView stream, void* values, std::int64_t bytes,
                                 std::int32_t from) {
  Reserve(bytes);
  // No limit: the sender may compute for any time. The first stage limits its wait for the result.
  host_.Receive({staged_.data(), Unsigned(bytes)}, from, Patience::kUnbounded);
  Put(stream, staged_.data(), values, bytes);
}

}  // namespace twin::exec::cuda
