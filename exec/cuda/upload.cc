#include "exec/cuda/upload.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "kernels/float_formats.h"

namespace twin::exec::cuda {
namespace {

// Converts one row to bf16.
void ConvertRow(const kernels::WeightSource& source, std::int64_t row, std::int64_t columns,
                float* values, std::uint16_t* out) {
  if (source.dtype == DType::kBf16 && source.column_stride == 1) {
    const std::byte* const from = source.data + row * source.row_stride * ByteSize(DType::kBf16);
    std::memcpy(out, from, static_cast<std::size_t>(columns * ByteSize(DType::kBf16)));
    return;
  }
  source.CopyRow(row, columns, values);
  for (std::int64_t i = 0; i < columns; ++i) out[i] = kernels::FloatToBf16(values[i]);
}

}  // namespace

Upload::Upload(StreamView stream, std::int64_t chunk_bytes) : stream_(stream) {
  for (Slot& slot : slots_) slot.buffer = PinnedBuffer(chunk_bytes, "pinned memory for loading");
}

Upload::~Upload() { AwaitStreamQuietly(stream_); }

Upload::Slot& Upload::NextSlot() {
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % slots_.size();
  slot.sent.Await("a copy of weights to the device");
  return slot;
}

void Upload::SendSlot(Slot& slot, std::int64_t bytes, std::byte* to) {
  CheckCuda(cudaMemcpyAsync(to, slot.buffer.data(), static_cast<std::size_t>(bytes),
                            cudaMemcpyHostToDevice, stream_.get()),
            "a copy of weights to the device");
  slot.sent.Record(stream_);
}

void Upload::SendRows(kernels::ThreadPool& pool, const kernels::WeightSource& source,
                      std::int64_t first_row, const kernels::cuda::DeviceMatrix& matrix) {
  CHECK(matrix.dtype == DType::kBf16 && first_row + source.rows <= matrix.rows);
  const std::int64_t row_bytes = matrix.stride * ByteSize(matrix.dtype);
  const std::int64_t chunk = slots_.front().buffer.bytes() / row_bytes;
  CHECK(chunk > 0);
  for (std::int64_t first = 0; first < source.rows; first += chunk) {
    const std::int64_t rows = std::min(chunk, source.rows - first);
    Slot& slot = NextSlot();
    auto* const out = slot.buffer.As<std::uint16_t>();
    pool.ParallelFor(rows, 16, [&](std::int64_t begin, std::int64_t end, std::int32_t thread) {
      float* const values = pool.scratch(thread).Reserve<float>(matrix.columns);
      for (std::int64_t i = begin; i < end; ++i) {
        std::uint16_t* const row = out + i * matrix.stride;
        ConvertRow(source, first + i, matrix.columns, values, row);
        std::fill(row + matrix.columns, row + matrix.stride, std::uint16_t{0});
      }
    });
    SendSlot(slot, rows * row_bytes, matrix.Row(first_row + first));
  }
}

void Upload::Send(std::span<const std::byte> bytes, std::byte* to) {
  const auto chunk = static_cast<std::size_t>(slots_.front().buffer.bytes());
  for (std::size_t first = 0; first < bytes.size(); first += chunk) {
    const std::span<const std::byte> part =
        bytes.subspan(first, std::min(chunk, bytes.size() - first));
    Slot& slot = NextSlot();
    std::memcpy(slot.buffer.data(), part.data(), part.size());
    SendSlot(slot, static_cast<std::int64_t>(part.size()), to + first);
  }
}

}  // namespace twin::exec::cuda
