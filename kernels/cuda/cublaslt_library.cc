#include "kernels/cuda/cublaslt_library.h"

#include "core/check.h"
#include "kernels/cuda/cuda_library.h"
#include "kernels/cuda/stream.h"

namespace twin::kernels::cuda {
namespace {

// As the library counts since 11.0: 10000 * major + 100 * minor + patch.
std::string VersionText(std::size_t version) {
  return std::to_string(version / 10'000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

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
  VisitFunctions(functions_, [&]<class Function>(Function& function, const char* name) {
    function = library.Find<std::remove_pointer_t<Function>>(name);
    if (function == nullptr && why_.empty()) why_ = library.path() + " lacks " + name;
  });
  if (why_.empty()) version_ = VersionText(functions_.get_version());
}

CublasLtLibrary::CublasLtLibrary(const CublasLtFunctions& functions) : functions_(functions) {
  VisitFunctions(functions_, [](auto& function, const char*) { CHECK(function != nullptr); });
  version_ = VersionText(functions_.get_version());
}

void CublasLtLibrary::Check(cublasStatus_t status, const char* what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(what, std::string("cuBLASLt ") + functions_.get_status_string(status),
                    status == CUBLAS_STATUS_ALLOC_FAILED);
}

}  // namespace twin::kernels::cuda
