#include "tests/cuda_emulation/emulated_cublaslt.h"

#include <cuda_fp16.h>

#include <atomic>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/float_formats.h"
#include "tests/cuda_emulation/emulated_device.h"

namespace twin::cuda_emulation {
namespace {

using kernels::Bf16ToFloat;
using kernels::FloatToBf16;
using kernels::Fp16ToFloat;

// The first words of the library's opaque objects, so that a wrong one is noticed.
enum Magic : std::uint64_t { kOperation = 0xC0B1A51, kLayout, kPreference, kAlgorithm, kFreed };
enum Algorithm : std::uint64_t { kAscending, kTwoHalves, kAlgorithms };

constexpr std::size_t kVersion = 130100;
constexpr std::uint64_t kAlgorithmAlignment = 16;
constexpr std::uint64_t kWorkspaceAlignment = 256;
constexpr std::size_t kHalvesWorkspace = std::size_t{16} << 20;

std::atomic<int> products = 0;
std::atomic<int> heuristics = 0;

// Places in the objects' words.
namespace operation_word {
enum : std::size_t { kMagic, kTransposedA, kTransposedB };
}
namespace layout_word {
enum : std::size_t { kMagic, kType, kRows, kColumns, kLeading };
}
namespace preference_word {
enum : std::size_t { kMagic, kWorkspace, kAlignment };
}
namespace algorithm_word {
enum : std::size_t { kMagic, kNumber, kInputType, kOutputType };
}

std::uint64_t TypeBytes(std::uint64_t type) { return type == CUDA_R_32F ? 4 : 2; }

float Load(const void* data, std::uint64_t index, std::uint64_t type) {
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[index];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[index];
  return type == CUDA_R_16BF ? Bf16ToFloat(bits) : Fp16ToFloat(bits);
}

void Store(float value, void* data, std::uint64_t index, std::uint64_t type) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(data)[index] = value;
  } else {
    static_cast<std::uint16_t*>(data)[index] =
        type == CUDA_R_16BF ? FloatToBf16(value) : __half_as_ushort(__float2half_rn(value));
  }
}

// A matrix as the product sees it.
struct Operand {
  std::uint64_t type = 0;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::uint64_t leading = 0;
  bool transposed = false;

  [[nodiscard]] std::uint64_t RowsSeen() const { return transposed ? columns : rows; }
  [[nodiscard]] std::uint64_t ColumnsSeen() const { return transposed ? rows : columns; }
  [[nodiscard]] std::uint64_t Index(std::uint64_t row, std::uint64_t column) const {
    return transposed ? column + row * leading : row + column * leading;
  }
};

struct Problem {
  Operand a;
  Operand b;
  Operand d;
};

bool ReadLayout(cublasLtMatrixLayout_t layout, bool transposed, Operand& operand) {
  if (layout == nullptr || layout->data[layout_word::kMagic] != kLayout) return false;
  operand = {.type = layout->data[layout_word::kType],
             .rows = layout->data[layout_word::kRows],
             .columns = layout->data[layout_word::kColumns],
             .leading = layout->data[layout_word::kLeading],
             .transposed = transposed};
  return operand.leading >= operand.rows;
}

cublasStatus_t ReadProblem(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                           cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                           cublasLtMatrixLayout_t d, Problem& problem) {
  if (operation == nullptr || operation->data[operation_word::kMagic] != kOperation) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  Operand added;
  const bool read =
      ReadLayout(a, operation->data[operation_word::kTransposedA] == CUBLAS_OP_T, problem.a) &&
      ReadLayout(b, operation->data[operation_word::kTransposedB] == CUBLAS_OP_T, problem.b) &&
      ReadLayout(c, false, added) && ReadLayout(d, false, problem.d);
  if (!read) return CUBLAS_STATUS_INVALID_VALUE;
  if (problem.a.RowsSeen() != problem.d.rows || problem.b.ColumnsSeen() != problem.d.columns ||
      problem.a.ColumnsSeen() != problem.b.RowsSeen() || added.rows != problem.d.rows ||
      added.columns != problem.d.columns) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const std::uint64_t type = problem.a.type;
  const bool known = (type == CUDA_R_16BF || type == CUDA_R_16F) && problem.b.type == type &&
                     (problem.d.type == type || problem.d.type == CUDA_R_32F) &&
                     added.type == problem.d.type;
  return known ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

bool AlignedLeading(const Operand& operand) {
  return operand.leading * TypeBytes(operand.type) % kAlgorithmAlignment == 0;
}

std::size_t WorkspaceOf(std::uint64_t algorithm) {
  return algorithm == kTwoHalves ? kHalvesWorkspace : 0;
}

cublasStatus_t CheckAlgorithm(const Problem& problem, const cublasLtMatmulAlgo_t* algorithm) {
  if (algorithm == nullptr || algorithm->data[algorithm_word::kMagic] != kAlgorithm ||
      algorithm->data[algorithm_word::kNumber] >= kAlgorithms) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (algorithm->data[algorithm_word::kInputType] != problem.a.type ||
      algorithm->data[algorithm_word::kOutputType] != problem.d.type) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool aligned =
      AlignedLeading(problem.a) && AlignedLeading(problem.b) && AlignedLeading(problem.d);
  return aligned ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

// The operand as fp32, element by element of what the product sees, k running fastest.
std::vector<float> Widen(const void* data, const Operand& operand, bool first) {
  const std::uint64_t outer = first ? operand.RowsSeen() : operand.ColumnsSeen();
  const std::uint64_t inner = first ? operand.ColumnsSeen() : operand.RowsSeen();
  std::vector<float> wide;
  wide.reserve(outer * inner);
  for (std::uint64_t i = 0; i < outer; ++i) {
    for (std::uint64_t k = 0; k < inner; ++k) {
      wide.push_back(Load(data, first ? operand.Index(i, k) : operand.Index(k, i), operand.type));
    }
  }
  return wide;
}

float Dot(const float* a, const float* b, std::uint64_t begin, std::uint64_t end) {
  float sum = 0;
  for (std::uint64_t k = begin; k < end; ++k) sum += a[k] * b[k];
  return sum;
}

struct Execution {
  Problem problem;
  std::uint64_t algorithm = 0;
  float alpha = 1;
  float beta = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  std::uint64_t c_leading = 0;
  void* d = nullptr;
  void* workspace = nullptr;

  void operator()() const {
    const std::uint64_t depth = problem.a.ColumnsSeen();
    const std::vector<float> wide_a = Widen(a, problem.a, true);
    const std::vector<float> wide_b = Widen(b, problem.b, false);
    const std::uint64_t half = algorithm == kTwoHalves ? depth / 2 : depth;
    // Whoever shares the workspace with something that runs meanwhile will see it.
    std::memset(workspace, 0xFF, WorkspaceOf(algorithm));
    for (std::uint64_t column = 0; column < problem.d.columns; ++column) {
      for (std::uint64_t row = 0; row < problem.d.rows; ++row) {
        const float* const left = wide_a.data() + row * depth;
        const float* const right = wide_b.data() + column * depth;
        const float sum = Dot(left, right, 0, half) + Dot(left, right, half, depth);
        const float added =
            beta != 0 ? beta * Load(c, row + column * c_leading, problem.d.type) : 0;
        Store(alpha * sum + added, d, problem.d.Index(row, column), problem.d.type);
      }
    }
  }
};

template <class... Pointers>
bool Aligned(std::uint64_t alignment, Pointers... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % alignment == 0) && ...);
}

std::size_t GetVersion() { return kVersion; }

const char* GetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}

cublasStatus_t Create(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new std::uint64_t(kOperation));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t Destroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<std::uint64_t*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t OperationCreate(cublasLtMatmulDesc_t* operation, cublasComputeType_t compute,
                               cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *operation = new cublasLtMatmulDescOpaque_t{};
  (*operation)->data[operation_word::kMagic] = kOperation;
  return CUBLAS_STATUS_SUCCESS;
}

template <class Object>
cublasStatus_t Free(Object* object) {
  if (object != nullptr) object->data[0] = kFreed;
  delete object;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t OperationSet(cublasLtMatmulDesc_t operation,
                            cublasLtMatmulDescAttributes_t attribute, const void* value,
                            std::size_t size) {
  std::int32_t transposed = 0;
  if (value == nullptr || size != sizeof(transposed)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&transposed, value, size);
  if (transposed != CUBLAS_OP_N && transposed != CUBLAS_OP_T) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto word = static_cast<std::uint64_t>(transposed);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) {
    operation->data[operation_word::kTransposedA] = word;
  } else if (attribute == CUBLASLT_MATMUL_DESC_TRANSB) {
    operation->data[operation_word::kTransposedB] = word;
  } else {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t LayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, std::uint64_t rows,
                            std::uint64_t columns, std::int64_t leading) {
  *layout = new cublasLtMatrixLayoutOpaque_t{};
  (*layout)->data[layout_word::kMagic] = kLayout;
  (*layout)->data[layout_word::kType] = static_cast<std::uint64_t>(type);
  (*layout)->data[layout_word::kRows] = rows;
  (*layout)->data[layout_word::kColumns] = columns;
  (*layout)->data[layout_word::kLeading] = static_cast<std::uint64_t>(leading);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t PreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t{};
  (*preference)->data[preference_word::kMagic] = kPreference;
  (*preference)->data[preference_word::kAlignment] = 256;  // as the library's default
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t PreferenceSet(cublasLtMatmulPreference_t preference,
                             cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                             std::size_t size) {
  if (value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    if (size != sizeof(std::uint64_t)) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&preference->data[preference_word::kWorkspace], value, size);
    return CUBLAS_STATUS_SUCCESS;
  }
  if (attribute < CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES ||
      attribute > CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  std::uint32_t alignment = 0;
  if (size != sizeof(alignment)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&alignment, value, size);
  if (alignment < kAlgorithmAlignment) return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t GetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                            cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                            cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                            cublasLtMatmulPreference_t preference, int requested,
                            cublasLtMatmulHeuristicResult_t results[], int* returned) {
  if (handle == nullptr || requested <= 0 || preference == nullptr ||
      preference->data[preference_word::kMagic] != kPreference) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  ++heuristics;
  Problem problem;
  const cublasStatus_t status = ReadProblem(operation, a, b, c, d, problem);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  *returned = 0;
  for (std::uint64_t number = 0; number < kAlgorithms && *returned < requested; ++number) {
    if (WorkspaceOf(number) > preference->data[preference_word::kWorkspace]) continue;
    cublasLtMatmulHeuristicResult_t& result = results[(*returned)++];
    result = {};
    result.algo.data[algorithm_word::kMagic] = kAlgorithm;
    result.algo.data[algorithm_word::kNumber] = number;
    result.algo.data[algorithm_word::kInputType] = problem.a.type;
    result.algo.data[algorithm_word::kOutputType] = problem.d.type;
    result.workspaceSize = WorkspaceOf(number);
    result.state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t AlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                         cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                         cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                         const cublasLtMatmulAlgo_t* algorithm,
                         cublasLtMatmulHeuristicResult_t* result) {
  Problem problem;
  cublasStatus_t status = ReadProblem(operation, a, b, c, d, problem);
  if (status == CUBLAS_STATUS_SUCCESS) status = CheckAlgorithm(problem, algorithm);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (handle == nullptr || result == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  result->workspaceSize = WorkspaceOf(algorithm->data[algorithm_word::kNumber]);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t Matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha,
                      const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                      cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                      cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                      const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                      std::size_t workspace_bytes, cudaStream_t stream) {
  Problem problem;
  cublasStatus_t status = ReadProblem(operation, a_layout, b_layout, c_layout, d_layout, problem);
  if (status == CUBLAS_STATUS_SUCCESS) status = CheckAlgorithm(problem, algorithm);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (handle == nullptr || a == nullptr || b == nullptr || d == nullptr || alpha == nullptr ||
      beta == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const std::uint64_t number = algorithm->data[algorithm_word::kNumber];
  if (workspace_bytes < WorkspaceOf(number) || !Aligned(kWorkspaceAlignment, workspace)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!Aligned(kAlgorithmAlignment, a, b, c, d)) return CUBLAS_STATUS_INVALID_VALUE;
  ++products;
  EnqueueOnStream(stream, Execution{.problem = problem,
                                    .algorithm = number,
                                    .alpha = *static_cast<const float*>(alpha),
                                    .beta = *static_cast<const float*>(beta),
                                    .a = a,
                                    .b = b,
                                    .c = c,
                                    .c_leading = c_layout->data[layout_word::kLeading],
                                    .d = d,
                                    .workspace = workspace});
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

kernels::cuda::CublasLtFunctions EmulatedCublasLt() {
  return {.get_version = &GetVersion,
          .get_status_string = &GetStatusString,
          .create = &Create,
          .destroy = &Destroy,
          .desc_create = &OperationCreate,
          .desc_destroy = &Free,
          .desc_set_attribute = &OperationSet,
          .layout_create = &LayoutCreate,
          .layout_destroy = &Free,
          .preference_create = &PreferenceCreate,
          .preference_destroy = &Free,
          .preference_set_attribute = &PreferenceSet,
          .get_heuristic = &GetHeuristic,
          .algo_check = &AlgoCheck,
          .matmul = &Matmul};
}

CublasLtCalls EmulatedCublasLtCalls() {
  return {.products = products.load(), .heuristics = heuristics.load()};
}

}  // namespace twin::cuda_emulation
