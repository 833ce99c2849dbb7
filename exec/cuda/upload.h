// Uploads rows of weights to a device.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "exec/cuda/device_memory.h"
#include "exec/cuda/stream.h"
#include "kernels/cuda/device_matrix.h"
#include "kernels/weight_matrix.h"

namespace twin::exec::cuda {

// Copies on a stream through two pinned buffers: one is filled while the other is being copied.
class Upload {
 public:
  // REQUIRES: `chunk_bytes` holds a row of any matrix.
  Upload(StreamView stream, std::int64_t chunk_bytes);
  // Waits for the copies in flight.
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  // Writes the rows of `source` to `matrix`, starting at `first_row`, rounded to nearest even. The
  // matrix is bf16. The source may be destroyed when this returns.
  void SendRows(kernels::ThreadPool& pool, const kernels::WeightSource& source,
                std::int64_t first_row, const kernels::cuda::DeviceMatrix& matrix);
  // Copies bytes; the source may be destroyed when this returns.
  void Send(std::span<const std::byte> bytes, std::byte* to);

 private:
  struct Slot {
    PinnedBuffer buffer;
    Event sent{Event::Kind::kOrder};
  };

  // The next pinned buffer; waits until it may be overwritten.
  Slot& NextSlot();
  void SendSlot(Slot& slot, std::int64_t bytes, std::byte* to);

  StreamView stream_;
  std::array<Slot, 2> slots_;
  std::size_t next_ = 0;
};

// Writes rows of weights to a matrix on a device.
class DeviceSink final : public kernels::WeightSink {
 public:
  // Borrows the upload.
  DeviceSink(Upload& upload, const kernels::cuda::DeviceMatrix& matrix)
      : upload_(upload), matrix_(matrix) {}
  void Fill(kernels::ThreadPool& pool, std::int64_t first_row,
            const kernels::WeightSource& source) override {
    upload_.SendRows(pool, source, first_row, matrix_);
  }

 private:
  Upload& upload_;
  kernels::cuda::DeviceMatrix matrix_;
};

}  // namespace twin::exec::cuda
