// The functions of cuBLASLt that the project calls, from a library opened at run time. Only for
// sources that are compiled with the toolkit's headers.
#pragma once

#include <cublasLt.h>

#include <string>

namespace twin::kernels::cuda {

struct CublasLtFunctions {
  decltype(&cublasLtGetVersion) get_version = nullptr;
  decltype(&cublasLtGetStatusString) get_status_string = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set_attribute = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set_attribute = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) get_heuristic = nullptr;
  decltype(&cublasLtMatmulAlgoCheck) algo_check = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
};

class CublasLtLibrary {
 public:
  // Looks for the major version of the headers, as CudaLibrary does.
  CublasLtLibrary();
  // The same of a library of another name.
  explicit CublasLtLibrary(const std::string& file_name);
  // For tests. REQUIRES: no function is null.
  explicit CublasLtLibrary(const CublasLtFunctions& functions);

  [[nodiscard]] bool usable() const { return why_.empty(); }
  // Why it is not usable, one line; empty if it is.
  [[nodiscard]] const std::string& why() const { return why_; }
  // As "13.1.0"; empty if it is not usable.
  [[nodiscard]] const std::string& version() const { return version_; }
  // REQUIRES: usable().
  [[nodiscard]] const CublasLtFunctions& functions() const { return functions_; }

  // Throws DeviceError unless `status` is success. `what` says what was tried.
  void Check(cublasStatus_t status, const char* what) const;

 private:
  CublasLtFunctions functions_;
  std::string why_;
  std::string version_;
};

}  // namespace twin::kernels::cuda
