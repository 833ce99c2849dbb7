// Linear layers on a device, by cuBLASLt. CPU twin: kernels/gemm.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "kernels/cuda/decode_times.h"
#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

class CublasLtLibrary;  // cublaslt_library.h

// Outputs and inputs of fp8 products must be multiples of this.
constexpr std::int64_t kFp8Sizes = 16;

// How tensor cores sum a product of fp8 matrices. kFast keeps the sum in their own precision, about
// 14 bits; kAccurate moves it to fp32 at intervals within the sum, which takes time.
enum class Fp8Accumulation : std::uint8_t { kAccurate, kFast };

// The shape of a product y = x * w^T. With input_dtype kFp8 it is a product of scaled matrices.
struct DeviceGemmShape {
  std::int64_t tokens = 0;
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  DType input_dtype = DType::kBf16;
  DType output_dtype = DType::kBf16;
  Fp8Accumulation accumulation = Fp8Accumulation::kAccurate;  // kFast: REQUIRES input_dtype kFp8

  auto operator<=>(const DeviceGemmShape&) const = default;
};

// The number of tokens whose algorithm a product of `tokens` tokens uses: the next multiple of 8
// from 8 on, of 32 from 256, of 64 from 1,024 and of 128 from 4,096. A run meets every number of
// tokens, and the heuristic of cuBLASLt takes half a millisecond for each shape.
std::int64_t RoundedTokens(std::int64_t tokens);

// Matrix products. Each shape uses the algorithm that was the fastest in a measurement on this
// device; a file keeps these choices by device and library version. A shape without a measurement
// uses the algorithm of its RoundedTokens(), as measured or, without a measurement, as cuBLASLt
// suggests first. Not thread-safe, and not for several streams at the same time, because they would
// share the workspace.
class Gemm {
 public:
  // Borrows the library. Allocates a workspace of 32 MiB on the device. `cache` is the path of the
  // file; empty = no file. An existing file is read. Throws InputError (data) if the file is
  // damaged, DeviceError.
  Gemm(const CublasLtLibrary& library, const std::filesystem::path& cache);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  // y[t, n] = sum_k x[t, k] * w[n, k]. Shapes: x [tokens, k] and w [n, k], both bf16;
  // y [tokens, n], bf16 or fp32. tokens may be 0. REQUIRES: pointers and row strides
  // are aligned to 16 bytes; during a capture, the shape has been prepared.
  void Multiply(StreamView stream, DeviceMatrix x, DeviceMatrix w, DeviceMatrix y);

  // y[t, n] = x.scales[t] * w.scales[n] * sum_k x.values[t, k] * w.values[n, k], summed as
  // `accumulation` says. As Multiply(), except: x and w are kFp8; y is bf16 or fp32; n and k
  // are multiples of kFp8Sizes. Throws DeviceError if cuBLASLt does not support the product: it
  // does only on compute capability 9.0 and since version 12.9.
  void MultiplyScaled(StreamView stream, const ScaledMatrix& x, const ScaledMatrix& w,
                      DeviceMatrix y, Fp8Accumulation accumulation = Fp8Accumulation::kAccurate);

  // Chooses the algorithm of a shape now, without measuring. Throws DeviceError if cuBLASLt has no
  // algorithm for it.
  void Prepare(const DeviceGemmShape& shape);
  // Measures up to `candidates` algorithms on random operands and keeps the fastest. It rotates
  // through copies of the weights so that they are read from memory, not from cache. Returns the
  // time of one product in seconds. Only Save() writes the file.
  double Tune(StreamView stream, const DeviceGemmShape& shape, int candidates = 8);
  void Save() const;
  // True if the shape has a measured algorithm, from Tune() or from the file.
  [[nodiscard]] bool Measured(const DeviceGemmShape& shape) const;
  // Measured times of attention, which the same file keeps.
  [[nodiscard]] DecodeTimes& decode_times();

  [[nodiscard]] std::int64_t workspace_bytes() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace twin::kernels::cuda
