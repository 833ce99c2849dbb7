#include "kernels/cuda/cublaslt_library.h"

#include "core/check.h"
#include "kernels/cuda/cuda_library.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {
namespace {

// Visits every entry of the table with the name of its function.
template <class Visitor>
void VisitFunctions(CublasLtFunctions& table, Visitor&& visit) {
  visit(table.get_version, "cublasLtGetVersion");
  visit(table.get_status_string, "cublasLtGetStatusString");
  visit(table.create, "cublasLtCreate");
  visit(table.destroy, "cublasLtDestroy");
  visit(table.desc_create, "cublasLtMatmulDescCreate");
  visit(table.desc_destroy, "cublasLtMatmulDescDestroy");
  visit(table.desc_set_attribute, "cublasLtMatmulDescSetAttribute");
  visit(table.layout_create, "cublasLtMatrixLayoutCreate");
  visit(table.layout_destroy, "cublasLtMatrixLayoutDestroy");
  visit(table.preference_create, "cublasLtMatmulPreferenceCreate");
  visit(table.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  visit(table.preference_set_attribute, "cublasLtMatmulPreferenceSetAttribute");
  visit(table.get_heuristic, "cublasLtMatmulAlgoGetHeuristic");
  visit(table.algo_check, "cublasLtMatmulAlgoCheck");
  visit(table.matmul, "cublasLtMatmul");
}

}  // namespace

CublasLtLibrary::CublasLtLibrary()
    : CublasLtLibrary("libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR)) {}

CublasLtLibrary::CublasLtLibrary(const std::string& file_name) {
  const CudaLibrary library(file_name);
  if (!library.open()) {
    why_ = "cuBLASLt: " + library.why();
    return;
  }
  why_ = library.FillTable(functions_,
                           [](auto& table, const auto& body) { VisitFunctions(table, body); });
  if (why_.empty())
    version_ = PackedVersionText(static_cast<std::int64_t>(functions_.get_version()));
}

CublasLtLibrary::CublasLtLibrary(const CublasLtFunctions& functions) : functions_(functions) {
  VisitFunctions(functions_, [](auto& function, const char*) { CHECK(function != nullptr); });
  version_ = PackedVersionText(static_cast<std::int64_t>(functions_.get_version()));
}

void CublasLtLibrary::Check(cublasStatus_t status, const char* what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw CublasLtError(what, std::string("cuBLASLt ") + functions_.get_status_string(status),
                      status == CUBLAS_STATUS_ALLOC_FAILED);
}

}  // namespace twin::kernels::cuda
