// The functions of NCCL that the project calls, from a library opened at run time. Only for sources
// that are compiled with the toolkit's headers.
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
  // Looks for the file as CudaLibrary does.
  explicit NcclLibrary(const std::string& file_name = "libnccl.so.2");
  // For tests. REQUIRES: no function is null.
  explicit NcclLibrary(const NcclFunctions& functions);

  [[nodiscard]] bool usable() const { return why_.empty(); }
  // Why it is not usable, one line; empty if it is.
  [[nodiscard]] const std::string& why() const { return why_; }
  // As "2.28.9"; empty if it is not usable.
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

// By default opens the machine's, once. May be unusable, and then says why.
std::shared_ptr<const NcclLibrary> FindNccl();

// For tests: how it is found from now on; null: as by default.
void SetNcclFinder(NcclFinder finder);

}  // namespace twin::exec::cuda
