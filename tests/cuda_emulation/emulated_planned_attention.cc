// Stands in for FlashInfer's kernels where a test adds this source: attention that needs a plan.
// The plan holds the rows of the sequences and a mark; the kernel is the generic one, which finds
// the rows by the plan as it is on the device. A plan that never arrived, or that of another window
// or part of the step, therefore ends the test. Of fresh prefills the kernel sees no page: it takes
// the keys and values of the rows.
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "core/check.h"
#include "kernels/cuda/attention_generic.h"
#include "kernels/cuda/flashinfer/planned_attention.h"
#include "tests/cuda_emulation/emulated_device.h"

namespace twin::kernels::cuda {
namespace {

constexpr std::size_t kMarkBytes = 16;  // in front of the rows

// Keys and values of rows as a cache with a block for each row.
class RowCache {
 public:
  RowCache(const AttentionShape& shape, std::int64_t rows)
      : shape_{.dtype = shape.dtype,
               .blocks = rows,
               .layers = 1,
               .kv_heads = shape.kv_heads,
               .block_size = 1,
               .head_dim = shape.head_dim},
        bytes_(static_cast<std::size_t>(shape_.Bytes())),
        blocks_(static_cast<std::size_t>(rows)),
        ones_(static_cast<std::size_t>(rows), 1) {
    std::iota(blocks_.begin(), blocks_.end(), 0);
  }

  void Copy(const DeviceMatrix& keys, const DeviceMatrix& values) {
    const auto bytes = static_cast<std::size_t>(shape_.kv_heads * shape_.RowBytes());
    for (std::int64_t row = 0; row < shape_.blocks; ++row) {
      std::memcpy(view().Tile(row, 0, 0, 0), keys.Row(row), bytes);
      std::memcpy(view().Tile(row, 0, 1, 0), values.Row(row), bytes);
    }
  }
  [[nodiscard]] KvCacheView view() { return {bytes_.data(), shape_}; }
  // The pages of sequences that have so many keys as rows.
  void PutPages(AttentionArrays& arrays) const {
    arrays.page_begin = arrays.first_query;
    arrays.page_indices = blocks_.data();
    arrays.last_page_tokens = ones_.data();
  }

 private:
  KvCacheShape shape_;
  std::vector<std::byte> bytes_;
  std::vector<std::int32_t> blocks_;
  std::vector<std::int32_t> ones_;
};

class EmulatedPlannedAttention final : public PlannedAttention {
 public:
  EmulatedPlannedAttention(AttentionKernel kernel, const AttentionShape& shape, std::int64_t window)
      : kernel_(kernel),
        shape_(shape),
        window_(window),
        mark_(window * 8 + static_cast<std::int64_t>(kernel)) {}

  void Plan(const AttentionPart& part, const PlanMemory& memory) override {
    CHECK(!part.fresh || kernel_ == AttentionKernel::kFa3);
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
    Enqueue(stream, [plan = plan_, mark = mark_] {
      CHECK(std::memcmp(plan, &mark, sizeof(mark)) == 0 && "the plan on the device is another one");
    });
    AttentionArrays arrays = part_.device;
    arrays.first_query = reinterpret_cast<const std::int32_t*>(plan_ + kMarkBytes);
    if (part_.fresh) {
      RunOnRows(stream, call, arrays);
      return;
    }
    GenericAttention(stream, Rows(call.q), arrays, part_.sequences, part_.rows, shape_, call.cache,
                     call.layer, window_, Rows(call.out));
  }

 private:
  void RunOnRows(StreamView stream, const AttentionCall& call, AttentionArrays arrays) const {
    const auto cache = std::make_shared<RowCache>(shape_, part_.rows);
    cache->PutPages(arrays);
    Enqueue(stream, [cache, k = Rows(call.k), v = Rows(call.v)] { cache->Copy(k, v); });
    AttentionShape shape = shape_;
    shape.block_size = 1;
    GenericAttention(stream, Rows(call.q), arrays, part_.sequences, part_.rows, shape,
                     cache->view(), /*layer=*/0, window_, Rows(call.out));
    Enqueue(stream, [cache] {});  // keeps it until then
  }

  template <class Body>
  static void Enqueue(StreamView stream, Body body) {
    CheckCuda(cuda_emulation::EnqueueOnStream(stream.get(), std::move(body)), "an emulated kernel");
  }

  // The rows of the part.
  [[nodiscard]] DeviceMatrix Rows(DeviceMatrix matrix) const {
    matrix.data += part_.first_row * matrix.stride * ByteSize(matrix.dtype);
    matrix.rows = part_.rows;
    return matrix;
  }

  AttentionKernel kernel_;
  AttentionShape shape_;
  std::int64_t window_;
  std::int64_t mark_;
  AttentionPart part_;
  std::byte* plan_ = nullptr;
};

}  // namespace

FlashInferBuild BuiltWithFlashInfer() { return {.fa2 = true, .fa3 = true, .version = "emulated"}; }

std::unique_ptr<PlannedAttention> MakePlannedAttention(AttentionKernel kernel,
                                                       const AttentionShape& shape,
                                                       std::int64_t window) {
  CHECK(kernel != AttentionKernel::kGeneric);
  return std::make_unique<EmulatedPlannedAttention>(kernel, shape, window);
}

}  // namespace twin::kernels::cuda
