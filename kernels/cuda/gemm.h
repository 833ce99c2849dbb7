// Linear layers on a device, by cuBLASLt. CPU twin: kernels/gemm.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

class CublasLtLibrary;  // cublaslt_library.h

// What outputs and inputs of products of fp8 matrices are multiples of.
constexpr std::int64_t kFp8Sizes = 16;

// With input_dtype kFp8: of a scaled product.
struct GemmShape {
  std::int64_t tokens = 0;
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  DType input_dtype = DType::kBf16;
  DType output_dtype = DType::kBf16;

  auto operator<=>(const GemmShape&) const = default;
};

// Products by the algorithm that was measured to be the fastest for its shape on this device, kept
// in a file by device and library version; by the library's first suggestion until then. One caller
// at a time; one stream at a time (the workspace is shared).
class Gemm {
 public:
  // Borrows the library. Takes a workspace of 32 MiB. `cache`: the file, empty = none; one that is
  // there is read, a damaged one is refused: InputError (data). Throws DeviceError.
  Gemm(const CublasLtLibrary& library, const std::filesystem::path& cache);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  // y[t, n] = sum_k x[t, k] * w[n, k]. Shapes: x [tokens, k], w [n, k], of one format, bf16 or
  // fp16; y [tokens, n], of that or fp32. tokens may be 0. REQUIRES: pointers and row strides of
  // 16 bytes' alignment. Under capture: the shape was prepared.
  void Multiply(StreamView stream, DeviceMatrix x, DeviceMatrix w, DeviceMatrix y);

  // y[t, n] = x.scales[t] * w.scales[n] * sum_k x.values[t, k] * w.values[n, k], summed in fp32.
  // As Multiply(), but for: x and w are of kFp8; y is of bf16, fp16 or fp32; n and k are multiples
  // of kFp8Sizes. Throws DeviceError where the library has no such product: it has them for compute
  // capability 9.0 alone, from version 12.9 on.
  void MultiplyScaled(StreamView stream, const ScaledMatrix& x, const ScaledMatrix& w,
                      DeviceMatrix y);

  // Chooses the algorithm of a shape now, without measuring. Throws DeviceError where the library
  // has none.
  void Prepare(const GemmShape& shape);
  // Measures up to `candidates` algorithms on random operands, rotated so that weights come from
  // memory, and keeps the fastest. Writes nothing until Save(). Returns the seconds of a product.
  double Tune(StreamView stream, const GemmShape& shape, int candidates = 8);
  void Save() const;
  // True if its fastest algorithm is known, from Tune() or from the file.
  [[nodiscard]] bool Measured(const GemmShape& shape) const;

  [[nodiscard]] std::int64_t workspace_bytes() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace twin::kernels::cuda
