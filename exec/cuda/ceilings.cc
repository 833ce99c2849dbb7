#include <cuda_runtime_api.h>

#include <algorithm>
#include <vector>

#include "exec/cuda/device.h"
#include "exec/cuda/device_memory.h"
#include "exec/cuda/probe.h"
#include "exec/profile/spread.h"
#include "kernels/cuda/random_fill.h"

namespace twin::exec {
namespace {

using cuda::DeviceBuffer;
using kernels::cuda::CheckCuda;
using kernels::cuda::DeviceMatrix;

constexpr std::int64_t kSide = 8192;
constexpr std::int64_t kCopyBytes = std::int64_t{1} << 29;
constexpr RepeatRule kRule = {.count_min = 10, .count_max = 40, .seconds_max = 0.5};

// Seconds of `work` on the stream, measured repeatedly.
template <class Work>
Spread Timed(cuda::StreamView stream, const Work& work) {
  const cuda::Event begin(cuda::Event::Kind::kTimed);
  const cuda::Event end(cuda::Event::Kind::kTimed);
  const auto run = [&] {
    begin.Record(stream);
    work();
    end.Record(stream);
    end.Await();
    return static_cast<double>(NanosecondsBetween(begin, end)) * 1e-9;
  };
  run();  // warms up
  return SpreadOf(Repeat(kRule, run));
}

// Fills a matrix with random numbers, because products of zeros draw less power and run faster than
// products of real models.
DeviceMatrix RandomMatrix(cuda::StreamView stream, const DeviceBuffer& buffer, std::int64_t side,
                          std::uint64_t key) {
  const DeviceMatrix matrix =
      kernels::cuda::DenseDeviceMatrix(buffer.data(), DType::kBf16, side, side);
  kernels::cuda::FillWithNormals(stream, {.key = key, .row_step = static_cast<std::uint64_t>(side)},
                                 matrix);
  return matrix;
}

void MeasureGemm(cuda::Device& device, std::int64_t side, CudaCeilings& ceilings) {
  const std::int64_t bytes = side * side * ByteSize(DType::kBf16);
  const DeviceBuffer buffers[3] = {{bytes, "a matrix"}, {bytes, "a matrix"}, {bytes, "a matrix"}};
  const DeviceMatrix x = RandomMatrix(device.compute(), buffers[0], side, 1);
  const DeviceMatrix w = RandomMatrix(device.compute(), buffers[1], side, 2);
  const DeviceMatrix y =
      kernels::cuda::DenseDeviceMatrix(buffers[2].data(), DType::kBf16, side, side);
  device.gemm().Tune(device.compute(), {.tokens = side, .outputs = side, .inputs = side});
  const Spread seconds =
      Timed(device.compute(), [&] { device.gemm().Multiply(device.compute(), x, w, y); });
  const auto n = static_cast<double>(side);
  ceilings.gemm_flops_per_s = 2 * n * n * n / seconds.median;
  ceilings.gemm_spread = seconds.relative();
}

void MeasureCopy(cuda::Device& device, std::int64_t bytes, CudaCeilings& ceilings) {
  const DeviceBuffer from(bytes, "an array to copy");
  const DeviceBuffer to(bytes, "an array to copy to");
  const auto size = static_cast<std::size_t>(bytes);
  const Spread seconds = Timed(device.compute(), [&] {
    CheckCuda(cudaMemcpyAsync(to.data(), from.data(), size, cudaMemcpyDeviceToDevice,
                              device.compute().get()),
              "cudaMemcpyAsync");
  });
  ceilings.copy_bytes = bytes;
  ceilings.copy_bytes_per_s = 2 * static_cast<double>(bytes) / seconds.median;
  ceilings.copy_spread = seconds.relative();
}

}  // namespace

CudaCeilings MeasureCudaCeilings(std::int32_t ordinal) {
  cuda::Device device(ordinal, {});
  CudaCeilings ceilings{.device = device.description()};
  const std::int64_t free = cuda::CurrentDeviceMemory().free;
  MeasureCopy(device, std::min(kCopyBytes, free / 8), ceilings);
  std::int64_t side = kSide;
  while (3 * side * side * ByteSize(DType::kBf16) > free / 4) side /= 2;
  MeasureGemm(device, side, ceilings);
  return ceilings;
}

}  // namespace twin::exec
