// Stands in for FlashInfer's kernels where a test adds this source: attention that needs a plan.
// The plan holds the rows of the sequences and a mark; the kernel is the generic one, which finds
// the rows by the plan as it is on the device. A plan that never arrived, or that of another window
// or part of the step, therefore ends the test.
#include <cstring>
#include <memory>

#include "core/check.h"
#include "kernels/cuda/attention_generic.h"
#include "kernels/cuda/flashinfer/planned_attention.h"
#include "tests/cuda_emulation/emulated_device.h"

namespace twin::kernels::cuda {
namespace {

constexpr std::size_t kMarkBytes = 16;  // in front of the rows

class EmulatedPlannedAttention final : public PlannedAttention {
 public:
  EmulatedPlannedAttention(AttentionKernel kernel, const AttentionShape& shape, std::int64_t window)
      : shape_(shape), window_(window), mark_(window * 8 + static_cast<std::int64_t>(kernel)) {}

  void Plan(const AttentionPart& part, const PlanMemory& memory) override {
    const auto count = static_cast<std::size_t>(part.sequences + 1);
    CHECK(kMarkBytes + count * sizeof(std::int32_t) <= memory.int_bytes);
    CHECK(cuda_emulation::IsDeviceMemory(memory.ints, memory.int_bytes));
    // All of its room belongs to the plan.
    std::memset(memory.host, 0xFF, memory.int_bytes);
    std::memcpy(memory.host, &mark_, sizeof(mark_));
    auto* const rows = reinterpret_cast<std::int32_t*>(memory.host + kMarkBytes);
    for (std::size_t i = 0; i < count; ++i) {
      rows[i] = part.host.first_query[i] - static_cast<std::int32_t>(part.first_row);
    }
    part_ = part;
    plan_ = memory.ints;
  }

  void Run(StreamView stream, const AttentionCall& call) const override {
    CheckCuda(cuda_emulation::EnqueueOnStream(stream.get(),
                                              [plan = plan_, mark = mark_] {
                                                CHECK(std::memcmp(plan, &mark, sizeof(mark)) == 0 &&
                                                      "the plan on the device is another one");
                                              }),
              "an emulated kernel");
    AttentionArrays arrays = part_.device;
    arrays.first_query = reinterpret_cast<const std::int32_t*>(plan_ + kMarkBytes);
    GenericAttention(stream, Rows(call.q), arrays, part_.sequences, part_.rows, shape_, call.cache,
                     call.layer, window_, Rows(call.out));
  }

 private:
  // The rows of the part.
  [[nodiscard]] DeviceMatrix Rows(DeviceMatrix matrix) const {
    matrix.data += part_.first_row * matrix.stride * ByteSize(matrix.dtype);
    matrix.rows = part_.rows;
    return matrix;
  }

  AttentionShape shape_;
  std::int64_t window_;
  std::int64_t mark_;
  AttentionPart part_;
  std::byte* plan_ = nullptr;
};

}  // namespace

FlashInferBuild BuiltWithFlashInfer() {
  return {.fa2 = true, .fa3 = true, .fp16 = true, .version = "emulated"};
}

std::unique_ptr<PlannedAttention> MakePlannedAttention(AttentionKernel kernel,
                                                       const AttentionShape& shape,
                                                       std::int64_t window) {
  CHECK(kernel != AttentionKernel::kGeneric);
  return std::make_unique<EmulatedPlannedAttention>(kernel, shape, window);
}

}  // namespace twin::kernels::cuda
