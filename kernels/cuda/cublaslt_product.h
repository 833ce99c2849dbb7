// Products of matrices by cuBLASLt: its descriptors, and what is asked of it. Only for sources that
// are compiled with the toolkit's headers.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <vector>

#include "kernels/cuda/cublaslt_library.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {

// NVIDIA's advice for Hopper.
constexpr std::size_t kGemmWorkspaceBytes = std::size_t{32} << 20;
// What is promised of pointers and rows; enough for the fastest kernels.
constexpr std::uint32_t kGemmAlignment = 16;

// A library handle on the current device, and the workspace. Borrows the library.
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
  // A new description of products with a transposed first operand. Throws DeviceError.
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

// Elements from one row to the next.
struct GemmStrides {
  std::int64_t x = 0;
  std::int64_t w = 0;
  std::int64_t y = 0;

  bool operator==(const GemmStrides&) const = default;
};

// Rows with the least gaps that keep each of them aligned.
GemmStrides AlignedStrides(const GemmShape& shape);

// Of the rows of fp8 operands, in device memory.
struct GemmScales {
  const float* x = nullptr;
  const float* w = nullptr;
};

// y = x * w^T of one shape; of fp8 operands, times the scales of both. Row-major matrices are to
// the library column-major ones, transposed: y^T [outputs, tokens] = (w^T)^T * x^T.
class CublasLtProduct {
 public:
  // Borrows the context. Throws DeviceError.
  CublasLtProduct(const CublasLtContext& context, const GemmShape& shape,
                  const GemmStrides& strides);

  // What the library suggests, the best first; at least one. Throws DeviceError.
  [[nodiscard]] std::vector<cublasLtMatmulAlgo_t> Suggestions(int count) const;
  [[nodiscard]] bool Accepts(const cublasLtMatmulAlgo_t& algorithm) const;
  // What Run() scales by from now on. REQUIRES: fp8 operands.
  void Scale(const GemmScales& scales) const;
  void Run(StreamView stream, const void* x, const void* w, void* y,
           const cublasLtMatmulAlgo_t& algorithm) const;

 private:
  using Layout =
      std::unique_ptr<cublasLtMatrixLayoutOpaque_t, decltype(CublasLtFunctions::layout_destroy)>;
  using Operation =
      std::unique_ptr<cublasLtMatmulDescOpaque_t, decltype(CublasLtFunctions::desc_destroy)>;
  void DescribeScaling();
  [[nodiscard]] cublasLtMatmulDesc_t operation() const {
    return scaled_ != nullptr ? scaled_.get() : context_.operation();
  }
  [[nodiscard]] Layout MakeLayout(DType dtype, std::int64_t rows, std::int64_t columns,
                                  std::int64_t stride) const;

  const CublasLtContext& context_;
  Operation scaled_;  // of fp8 operands
  Layout w_;
  Layout x_;
  Layout y_;
};

}  // namespace twin::kernels::cuda
