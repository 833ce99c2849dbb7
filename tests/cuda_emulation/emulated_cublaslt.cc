#include "tests/cuda_emulation/emulated_cublaslt.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <utility>

#include "tests/cuda_emulation/emulated_device.h"
#include "tests/cuda_emulation/emulated_product.h"

namespace twin::cuda_emulation {
namespace {

// The first words of the library's opaque objects, so that a wrong one is noticed.
enum Magic : std::uint64_t { kOperation = 0xC0B1A51, kLayout, kPreference, kAlgorithm, kFreed };
enum Algorithm : std::uint64_t { kAscending, kTwoHalves, kAlgorithms };

constexpr std::size_t kVersion = 130100;
constexpr std::uint64_t kAlgorithmAlignment = 16;
constexpr std::uint64_t kWorkspaceAlignment = 256;
constexpr std::uint64_t kFp8Sizes = 16;
constexpr std::size_t kHalvesWorkspace = std::size_t{16} << 20;

std::atomic<int> products = 0;
std::atomic<int> fast_products = 0;
std::atomic<int> heuristics = 0;
std::atomic<unsigned> reduction_mask = 0;
std::vector<std::uint64_t> failing_algorithms;

// Places in the objects' words.
namespace operation_word {
enum : std::size_t {
  kMagic,
  kTransposedA,
  kTransposedB,
  kModeA,
  kModeB,
  kScalesA,
  kScalesB,
  kFast
};
}
namespace layout_word {
enum : std::size_t { kMagic, kType, kRows, kColumns, kLeading };
}
namespace preference_word {
enum : std::size_t { kMagic, kWorkspace, kAlignment, kReductions };
}
namespace algorithm_word {
enum : std::size_t { kMagic, kNumber, kInputType, kOutputType, kFast };
}

bool OnHopper() {
  int device = 0;
  int major = 0;
  int minor = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess &&
         major == 9 && minor == 0;
}

// Whether e4m3 operands are multiplied so.
cublasStatus_t CheckScaled(cublasLtMatmulDesc_t operation, const Product& product) {
  const auto* const words = operation->data;
  const std::uint64_t type = product.d.type;
  const bool known = OnHopper() && product.a.transposed && !product.b.transposed &&
                     words[operation_word::kModeA] == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F &&
                     words[operation_word::kModeB] == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F &&
                     (type == CUDA_R_16BF || type == CUDA_R_32F) && product.c.type == type &&
                     product.d.rows % kFp8Sizes == 0 && product.a.ColumnsSeen() % kFp8Sizes == 0;
  if (!known) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool scaled = words[operation_word::kScalesA] != 0 && words[operation_word::kScalesB] != 0;
  return scaled ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

bool ReadLayout(cublasLtMatrixLayout_t layout, bool transposed, Operand& operand) {
  if (layout == nullptr || layout->data[layout_word::kMagic] != kLayout) return false;
  operand = {.type = layout->data[layout_word::kType],
             .rows = layout->data[layout_word::kRows],
             .columns = layout->data[layout_word::kColumns],
             .leading = layout->data[layout_word::kLeading],
             .transposed = transposed};
  return operand.leading >= operand.rows;
}

cublasStatus_t ReadProduct(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                           cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                           cublasLtMatrixLayout_t d, Product& product) {
  if (operation == nullptr || operation->data[operation_word::kMagic] != kOperation) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool read =
      ReadLayout(a, operation->data[operation_word::kTransposedA] == CUBLAS_OP_T, product.a) &&
      ReadLayout(b, operation->data[operation_word::kTransposedB] == CUBLAS_OP_T, product.b) &&
      ReadLayout(c, false, product.c) && ReadLayout(d, false, product.d);
  if (!read) return CUBLAS_STATUS_INVALID_VALUE;
  if (product.a.RowsSeen() != product.d.rows || product.b.ColumnsSeen() != product.d.columns ||
      product.a.ColumnsSeen() != product.b.RowsSeen() || product.c.rows != product.d.rows ||
      product.c.columns != product.d.columns) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const std::uint64_t type = product.a.type;
  product.fast = operation->data[operation_word::kFast] != 0;
  if (type == CUDA_R_8F_E4M3 && product.b.type == type) return CheckScaled(operation, product);
  const bool unscaled = operation->data[operation_word::kModeA] == 0 &&
                        operation->data[operation_word::kModeB] == 0 && !product.fast;
  const bool known = unscaled && type == CUDA_R_16BF && product.b.type == type &&
                     (product.d.type == type || product.d.type == CUDA_R_32F) &&
                     product.c.type == product.d.type;
  return known ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

bool AlignedLeading(const Operand& operand) {
  return operand.leading * TypeBytes(operand.type) % kAlgorithmAlignment == 0;
}

std::size_t WorkspaceOf(std::uint64_t algorithm) {
  return algorithm == kTwoHalves ? kHalvesWorkspace : 0;
}

cublasStatus_t CheckAlgorithm(const Product& product, const cublasLtMatmulAlgo_t* algorithm) {
  if (algorithm == nullptr || algorithm->data[algorithm_word::kMagic] != kAlgorithm ||
      algorithm->data[algorithm_word::kNumber] >= kAlgorithms) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (algorithm->data[algorithm_word::kInputType] != product.a.type ||
      algorithm->data[algorithm_word::kOutputType] != product.d.type ||
      algorithm->data[algorithm_word::kFast] != static_cast<std::uint64_t>(product.fast)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool aligned =
      AlignedLeading(product.a) && AlignedLeading(product.b) && AlignedLeading(product.d);
  return aligned ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

template <class... Pointers>
bool Aligned(std::uint64_t alignment, Pointers... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % alignment == 0) && ...);
}

bool InDeviceMemory(const Execution& execution) {
  const Product& product = execution.product;
  const bool scaled = execution.a_scales != nullptr;
  return (!scaled || (IsDeviceMemory(execution.a_scales, product.d.rows * sizeof(float)) &&
                      IsDeviceMemory(execution.b_scales, product.d.columns * sizeof(float)))) &&
         IsDeviceMemory(execution.a_data, product.a.Bytes()) &&
         IsDeviceMemory(execution.b_data, product.b.Bytes()) &&
         IsDeviceMemory(execution.d_data, product.d.Bytes()) &&
         (execution.beta == 0 || IsDeviceMemory(execution.c_data, product.c.Bytes())) &&
         (execution.workspace_bytes == 0 ||
          IsDeviceMemory(execution.workspace, execution.workspace_bytes));
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
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
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

struct AttributeWord {
  cublasLtMatmulDescAttributes_t attribute;
  std::size_t word;
  std::size_t bytes = sizeof(std::int32_t);
};
constexpr AttributeWord kAttributes[] = {
    {CUBLASLT_MATMUL_DESC_TRANSA, operation_word::kTransposedA},
    {CUBLASLT_MATMUL_DESC_TRANSB, operation_word::kTransposedB},
    {CUBLASLT_MATMUL_DESC_FAST_ACCUM, operation_word::kFast, sizeof(std::int8_t)},
    {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, operation_word::kModeA},
    {CUBLASLT_MATMUL_DESC_B_SCALE_MODE, operation_word::kModeB},
    {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, operation_word::kScalesA, sizeof(void*)},
    {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, operation_word::kScalesB, sizeof(void*)}};

cublasStatus_t OperationSet(cublasLtMatmulDesc_t operation,
                            cublasLtMatmulDescAttributes_t attribute, const void* value,
                            std::size_t size) {
  const auto* const place = std::ranges::find(kAttributes, attribute, &AttributeWord::attribute);
  if (place == std::end(kAttributes)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (value == nullptr || size != place->bytes) return CUBLAS_STATUS_INVALID_VALUE;
  std::uint64_t given = 0;
  std::memcpy(&given, value, size);
  const bool transposes =
      attribute == CUBLASLT_MATMUL_DESC_TRANSA || attribute == CUBLASLT_MATMUL_DESC_TRANSB;
  if (transposes && given != CUBLAS_OP_N && given != CUBLAS_OP_T) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  operation->data[place->word] = given;
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
  (*preference)->data[preference_word::kReductions] = CUBLASLT_REDUCTION_SCHEME_MASK;
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
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
    if (size != sizeof(std::uint32_t)) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&preference->data[preference_word::kReductions], value, size);
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
  reduction_mask = static_cast<unsigned>(preference->data[preference_word::kReductions]);
  Product product;
  const cublasStatus_t status = ReadProduct(operation, a, b, c, d, product);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  *returned = 0;
  for (std::uint64_t number = 0; number < kAlgorithms && *returned < requested; ++number) {
    if (WorkspaceOf(number) > preference->data[preference_word::kWorkspace]) continue;
    cublasLtMatmulHeuristicResult_t& result = results[(*returned)++];
    result = {};
    result.algo.data[algorithm_word::kMagic] = kAlgorithm;
    result.algo.data[algorithm_word::kNumber] = number;
    result.algo.data[algorithm_word::kInputType] = product.a.type;
    result.algo.data[algorithm_word::kOutputType] = product.d.type;
    result.algo.data[algorithm_word::kFast] = static_cast<std::uint64_t>(product.fast);
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
  Product product;
  cublasStatus_t status = ReadProduct(operation, a, b, c, d, product);
  if (status == CUBLAS_STATUS_SUCCESS) status = CheckAlgorithm(product, algorithm);
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
  Product product;
  cublasStatus_t status = ReadProduct(operation, a_layout, b_layout, c_layout, d_layout, product);
  if (status == CUBLAS_STATUS_SUCCESS) status = CheckAlgorithm(product, algorithm);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (handle == nullptr || a == nullptr || b == nullptr || d == nullptr || alpha == nullptr ||
      beta == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const std::uint64_t number = algorithm->data[algorithm_word::kNumber];
  if (std::find(failing_algorithms.begin(), failing_algorithms.end(), number) !=
      failing_algorithms.end()) {
    return CUBLAS_STATUS_INTERNAL_ERROR;
  }
  if (workspace_bytes < WorkspaceOf(number) || !Aligned(kWorkspaceAlignment, workspace)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!Aligned(kAlgorithmAlignment, a, b, c, d)) return CUBLAS_STATUS_INVALID_VALUE;
  const auto scales = [&](std::size_t word) {
    return product.a.type == CUDA_R_8F_E4M3 ? reinterpret_cast<const float*>(operation->data[word])
                                            : nullptr;
  };
  const Execution execution{.product = product,
                            .two_halves = number == kTwoHalves,
                            .alpha = *static_cast<const float*>(alpha),
                            .beta = *static_cast<const float*>(beta),
                            .a_data = a,
                            .b_data = b,
                            .a_scales = scales(operation_word::kScalesA),
                            .b_scales = scales(operation_word::kScalesB),
                            .c_data = c,
                            .d_data = d,
                            .workspace = workspace,
                            .workspace_bytes = WorkspaceOf(number)};
  if (!InDeviceMemory(execution)) return CUBLAS_STATUS_EXECUTION_FAILED;
  ++products;
  if (product.fast) ++fast_products;
  if (EnqueueOnStream(stream, execution) != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
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
  return {.products = products.load(),
          .fast_products = fast_products.load(),
          .heuristics = heuristics.load(),
          .reduction_mask = reduction_mask.load()};
}

void FailCublasLtAlgorithms(std::vector<std::uint64_t> algorithms) {
  failing_algorithms = std::move(algorithms);
}

}  // namespace twin::cuda_emulation
