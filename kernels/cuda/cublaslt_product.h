// Matrix products by cuBLASLt: owners of its handle and descriptors. Include only in sources that
// are compiled with the headers of the CUDA toolkit.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <vector>

#include "kernels/cuda/cublaslt_library.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

// Workspace size that NVIDIA recommends for Hopper.
constexpr std::size_t kGemmWorkspaceBytes = std::size_t{32} << 20;
// Alignment of pointers and rows that is declared to cuBLASLt, in bytes. It allows the fastest
// kernels.
constexpr std::uint32_t kGemmAlignment = 16;

// A cuBLASLt handle on the current device, with a workspace. Borrows the library.
class CublasLtContext {
 public:
  // Throws DeviceError.
  explicit CublasLtContext(const CublasLtLibrary& library);
  ~CublasLtContext();
  CublasLtContext(const CublasLtContext&) = delete;
  CublasLtContext& operator=(const CublasLtContext&) = delete;

  [[nodiscard]] const CublasLtLibrary& library() const { return library_; }
  [[nodiscard]] const CublasLtFunctions& functions() const { return library_.functions(); }
  [[nodiscard]] cublasLtHandle_t handle() const { return handle_; }
  [[nodiscard]] cublasLtMatmulDesc_t operation() const { return operation_; }
  [[nodiscard]] cublasLtMatmulPreference_t preference() const { return preference_; }
  [[nodiscard]] void* workspace() const { return workspace_; }
  // Creates a descriptor of a product whose first operand is transposed. The caller destroys it.
  // Throws DeviceError.
  [[nodiscard]] cublasLtMatmulDesc_t DescribeOperation() const;

 private:
  void DescribePreference();
  void Release();

  const CublasLtLibrary& library_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
  void* workspace_ = nullptr;
};

// Row strides of the operands, in elements.
struct GemmStrides {
  std::int64_t x = 0;
  std::int64_t w = 0;
  std::int64_t y = 0;

  bool operator==(const GemmStrides&) const = default;
};

// The smallest strides with which every row is aligned.
GemmStrides AlignedStrides(const DeviceGemmShape& shape);

// Scales of the rows of fp8 operands, in device memory.
struct GemmScales {
  const float* x = nullptr;
  const float* w = nullptr;
};

// y = x * w^T for one shape; fp8 operands are multiplied by the scales of their rows. cuBLASLt
// expects column-major matrices and therefore sees each row-major matrix transposed:
// y^T [outputs, tokens] = (w^T)^T * x^T.
class CublasLtProduct {
 public:
  // Borrows the context. Throws DeviceError.
  CublasLtProduct(const CublasLtContext& context, const DeviceGemmShape& shape,
                  const GemmStrides& strides);

  // Algorithms that the heuristic of cuBLASLt suggests, the best first; at least one and at most
  // `count`. Throws DeviceError.
  [[nodiscard]] std::vector<cublasLtMatmulAlgo_t> Suggestions(int count) const;
  [[nodiscard]] bool Accepts(const cublasLtMatmulAlgo_t& algorithm) const;
  // Sets the scales for the following calls of Run(). REQUIRES: fp8 operands.
  void Scale(const GemmScales& scales) const;
  void Run(StreamView stream, const void* x, const void* w, void* y,
           const cublasLtMatmulAlgo_t& algorithm) const;

 private:
  using Layout =
      std::unique_ptr<cublasLtMatrixLayoutOpaque_t, decltype(CublasLtFunctions::layout_destroy)>;
  using Operation =
      std::unique_ptr<cublasLtMatmulDescOpaque_t, decltype(CublasLtFunctions::desc_destroy)>;
  void DescribeScaling();
  void DescribeAccumulation(Fp8Accumulation accumulation);
  [[nodiscard]] cublasLtMatmulDesc_t operation() const {
    return scaled_ != nullptr ? scaled_.get() : context_.operation();
  }
  [[nodiscard]] Layout MakeLayout(DType dtype, std::int64_t rows, std::int64_t columns,
                                  std::int64_t stride) const;

  const CublasLtContext& context_;
  Operation scaled_;  // for fp8 operands only
  Layout w_;
  Layout x_;
  Layout y_;
};

}  // namespace twin::kernels::cuda
