// Rows of weights on their way from files to a device.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "exec/cuda/device_memory.h"
#include "exec/cuda/stream.h"
#include "kernels/cuda/device_matrix.h"
#include "kernels/weight_matrix.h"

namespace twin::exec::cuda {

// Copies along a stream through two pinned buffers, so that one is filled while the other is sent.
class Upload {
 public:
  // REQUIRES: `chunk_bytes` holds a row of any matrix.
  Upload(StreamView stream, std::int64_t chunk_bytes);
  // Waits for what is on its way.
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  // Rows first_row.. of `matrix`, bf16 or fp16, become those of `source`, rounded to nearest even.
  // The source may be gone when this returns.
  void SendRows(kernels::ThreadPool& pool, const kernels::WeightSource& source,
                std::int64_t first_row, const kernels::cuda::DeviceMatrix& matrix);
  void Send(std::span<const float> values, float* to);

 private:
  struct Slot {
    PinnedBuffer buffer;
    Event sent{Event::Kind::kOrder};
  };

  // The next pinned buffer, free to be written.
  Slot& NextSlot();
  void SendSlot(Slot& slot, std::int64_t bytes, std::byte* to);

  StreamView stream_;
  std::array<Slot, 2> slots_;
  std::size_t next_ = 0;
};

// Takes rows into a matrix on the device.
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
