#include "kernels/cuda/cublaslt_product.h"

#include <cuda_runtime_api.h>

#include <span>

#include "core/check.h"

namespace twin::kernels::cuda {
namespace {

cudaDataType_t DataType(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
      return CUDA_R_16BF;
    case DType::kFp32:
      return CUDA_R_32F;
    case DType::kFp8:
      return CUDA_R_8F_E4M3;
    default:
      break;
  }
  CHECK(false && "cuBLASLt products are of fp8, bf16 and fp32");
  return CUDA_R_32F;
}

std::int64_t AlignedStride(std::int64_t columns, DType dtype) {
  const std::int64_t step = kGemmAlignment / ByteSize(dtype);
  return (columns + step - 1) / step * step;
}

}  // namespace

GemmStrides AlignedStrides(const DeviceGemmShape& shape) {
  const std::int64_t inputs = AlignedStride(shape.inputs, shape.input_dtype);
  return {.x = inputs, .w = inputs, .y = AlignedStride(shape.outputs, shape.output_dtype)};
}

CublasLtContext::CublasLtContext(const CublasLtLibrary& library) : library_(library) {
  if (!library.usable()) throw DeviceError("matrix products", library.why());
  try {
    library.Check(functions().create(&handle_), "making a cuBLASLt handle");
    CheckCuda(cudaMalloc(&workspace_, kGemmWorkspaceBytes), "cudaMalloc of the GEMM workspace");
    operation_ = DescribeOperation();
    DescribePreference();
  } catch (...) {
    Release();
    throw;
  }
}

CublasLtContext::~CublasLtContext() { Release(); }

cublasLtMatmulDesc_t CublasLtContext::DescribeOperation() const {
  const char* const what = "describing a product";
  cublasLtMatmulDesc_t operation = nullptr;
  library_.Check(functions().desc_create(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), what);
  const cublasOperation_t transposed = CUBLAS_OP_T;
  const cublasStatus_t status = functions().desc_set_attribute(
      operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed));
  if (status != CUBLAS_STATUS_SUCCESS) functions().desc_destroy(operation);
  library_.Check(status, what);
  return operation;
}

void CublasLtContext::DescribePreference() {
  const char* const what = "describing what products are wanted";
  library_.Check(functions().preference_create(&preference_), what);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    library_.Check(
        functions().preference_set_attribute(preference_, attribute, &value, sizeof(value)), what);
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kGemmWorkspaceBytes);
  // Parts of a sum that are computed apart are added in fp32, never in the format of the result.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kGemmAlignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kGemmAlignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kGemmAlignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kGemmAlignment);
}

void CublasLtContext::Release() {
  if (preference_ != nullptr) functions().preference_destroy(preference_);
  if (operation_ != nullptr) functions().desc_destroy(operation_);
  if (handle_ != nullptr) functions().destroy(handle_);
  if (workspace_ != nullptr && !DeviceHangs()) cudaFree(workspace_);
}

CublasLtProduct::CublasLtProduct(const CublasLtContext& context, const DeviceGemmShape& shape,
                                 const GemmStrides& strides)
    : context_(context),
      scaled_(shape.input_dtype == DType::kFp8 ? context.DescribeOperation() : nullptr,
              context.functions().desc_destroy),
      w_(MakeLayout(shape.input_dtype, shape.outputs, shape.inputs, strides.w)),
      x_(MakeLayout(shape.input_dtype, shape.tokens, shape.inputs, strides.x)),
      y_(MakeLayout(shape.output_dtype, shape.tokens, shape.outputs, strides.y)) {
  CHECK(scaled_ != nullptr || shape.accumulation == Fp8Accumulation::kAccurate);
  if (scaled_ == nullptr) return;
  DescribeScaling();
  DescribeAccumulation(shape.accumulation);
}

void CublasLtProduct::DescribeAccumulation(Fp8Accumulation accumulation) {
  const std::int8_t fast = accumulation == Fp8Accumulation::kFast ? 1 : 0;
  const cublasStatus_t status = context_.functions().desc_set_attribute(
      scaled_.get(), CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof(fast));
  context_.library().Check(status, "describing the sums of a product of fp8 matrices");
}

void CublasLtProduct::DescribeScaling() {
  // One scale per row of each operand; each result is multiplied by the two scales of its rows.
  const std::int32_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
  for (const auto attribute :
       {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE}) {
    const cublasStatus_t status =
        context_.functions().desc_set_attribute(scaled_.get(), attribute, &mode, sizeof(mode));
    context_.library().Check(status, "describing a product of fp8 matrices");
  }
  // The heuristic rejects null pointers but does not dereference them.
  const auto* const somewhere = static_cast<const float*>(context_.workspace());
  Scale({.x = somewhere, .w = somewhere});
}

void CublasLtProduct::Scale(const GemmScales& scales) const {
  CHECK(scaled_ != nullptr && scales.x != nullptr && scales.w != nullptr);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const float* pointer) {
    const cublasStatus_t status = context_.functions().desc_set_attribute(
        scaled_.get(), attribute, &pointer, sizeof(pointer));
    context_.library().Check(status, "scaling a product of fp8 matrices");
  };
  set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scales.w);
  set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scales.x);
}

CublasLtProduct::Layout CublasLtProduct::MakeLayout(DType dtype, std::int64_t rows,
                                                    std::int64_t columns,
                                                    std::int64_t stride) const {
  cublasLtMatrixLayout_t layout = nullptr;
  const cublasStatus_t status = context_.functions().layout_create(
      &layout, DataType(dtype), static_cast<std::uint64_t>(columns),
      static_cast<std::uint64_t>(rows), stride);
  context_.library().Check(status, "describing a matrix");
  return {layout, context_.functions().layout_destroy};
}

std::vector<cublasLtMatmulAlgo_t> CublasLtProduct::Suggestions(int count) const {
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(count));
  int returned = 0;
  const cublasStatus_t status = context_.functions().get_heuristic(
      context_.handle(), operation(), w_.get(), x_.get(), y_.get(), y_.get(), context_.preference(),
      count, results.data(), &returned);
  context_.library().Check(status, "choosing a GEMM algorithm");
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (const auto& result : std::span(results).first(static_cast<std::size_t>(returned))) {
    if (result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= kGemmWorkspaceBytes) {
      algorithms.push_back(result.algo);
    }
  }
  if (algorithms.empty()) {
    throw DeviceError("choosing a GEMM algorithm", "cuBLASLt has none for this product");
  }
  return algorithms;
}

bool CublasLtProduct::Accepts(const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = context_.functions().algo_check(
      context_.handle(), operation(), w_.get(), x_.get(), y_.get(), y_.get(), &algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= kGemmWorkspaceBytes;
}

void CublasLtProduct::Run(StreamView stream, const void* x, const void* w, void* y,
                          const cublasLtMatmulAlgo_t& algorithm) const {
  const float alpha = 1;
  const float beta = 0;
  const cublasStatus_t status = context_.functions().matmul(
      context_.handle(), operation(), &alpha, w, w_.get(), x, x_.get(), &beta, y, y_.get(), y,
      y_.get(), &algorithm, context_.workspace(), kGemmWorkspaceBytes, stream.get());
  context_.library().Check(status, "multiplying matrices");
}

}  // namespace twin::kernels::cuda
