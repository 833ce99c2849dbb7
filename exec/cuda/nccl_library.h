// NCCL, opened at run time: a table of the functions that the project calls. Include only in
// sources that are compiled with the headers of the CUDA toolkit.
#pragma once

#include <nccl.h>

#include <memory>
#include <string>

namespace twin::exec::cuda {

struct NcclFunctions {
  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetErrorString) get_error_string = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config = nullptr;
  decltype(&ncclCommGetAsyncError) comm_get_async_error = nullptr;
  decltype(&ncclCommFinalize) comm_finalize = nullptr;
  decltype(&ncclCommDestroy) comm_destroy = nullptr;
  decltype(&ncclCommAbort) comm_abort = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
};

class NcclLibrary {
 public:
  // Opens the library, searching as CudaLibrary does.
  explicit NcclLibrary(const std::string& file_name = "libnccl.so.2");
  // For tests. REQUIRES: no function is null.
  explicit NcclLibrary(const NcclFunctions& functions);

  [[nodiscard]] bool usable() const { return why_.empty(); }
  // The reason why the library is not usable, in one line; empty if it is usable.
  [[nodiscard]] const std::string& why() const { return why_; }
  // The version, such as "2.28.9"; empty if the library is not usable.
  [[nodiscard]] const std::string& version() const { return version_; }
  // REQUIRES: usable().
  [[nodiscard]] const NcclFunctions& functions() const { return functions_; }

 private:
  void ReadVersion();

  NcclFunctions functions_;
  std::string why_;
  std::string version_;
};

using NcclFinder = std::shared_ptr<const NcclLibrary> (*)();

// By default opens the installed library once. The result may be unusable; why() then gives the
// reason.
std::shared_ptr<const NcclLibrary> FindNccl();

// For tests: replaces the function that FindNccl() calls; null restores the default.
void SetNcclFinder(NcclFinder finder);

}  // namespace twin::exec::cuda
