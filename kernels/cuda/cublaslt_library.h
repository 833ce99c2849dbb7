// cuBLASLt, opened at run time: a table of the functions that the project calls. Include only in
// sources that are compiled with the headers of the CUDA toolkit.
#pragma once

#include <cublasLt.h>

#include <string>

#include "kernels/cuda/stream.h"

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

// cuBLASLt refused a call. Unlike after a failed kernel, the device is as before.
class CublasLtError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

class CublasLtLibrary {
 public:
  // Opens the library with the major version of the headers, searching as CudaLibrary does.
  CublasLtLibrary();
  // Opens a library with another file name.
  explicit CublasLtLibrary(const std::string& file_name);
  // For tests. REQUIRES: no function is null.
  explicit CublasLtLibrary(const CublasLtFunctions& functions);

  [[nodiscard]] bool usable() const { return why_.empty(); }
  // The reason why the library is not usable, in one line; empty if it is usable.
  [[nodiscard]] const std::string& why() const { return why_; }
  // The version, such as "13.1.0"; empty if the library is not usable.
  [[nodiscard]] const std::string& version() const { return version_; }
  // REQUIRES: usable().
  [[nodiscard]] const CublasLtFunctions& functions() const { return functions_; }

  // Throws CublasLtError unless `status` is success. `what` names the failed call in the message.
  void Check(cublasStatus_t status, const char* what) const;

 private:
  CublasLtFunctions functions_;
  std::string why_;
  std::string version_;
};

}  // namespace twin::kernels::cuda
