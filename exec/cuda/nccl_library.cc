#include "exec/cuda/nccl_library.h"

#include <atomic>

#include "core/check.h"
#include "kernels/cuda/cuda_library.h"

namespace twin::exec::cuda {
namespace {

// The first version with ncclCommInitRankConfig and non-blocking groups.
constexpr int kOldestVersion = NCCL_VERSION(2, 14, 0);

std::atomic<NcclFinder> nccl_finder{nullptr};

// Visits every entry of the table with the name of its function.
template <class Visitor>
void VisitFunctions(NcclFunctions& table, Visitor&& visit) {
  visit(table.get_version, "ncclGetVersion");
  visit(table.get_error_string, "ncclGetErrorString");
  visit(table.get_unique_id, "ncclGetUniqueId");
  visit(table.comm_init_rank_config, "ncclCommInitRankConfig");
  visit(table.comm_get_async_error, "ncclCommGetAsyncError");
  visit(table.comm_finalize, "ncclCommFinalize");
  visit(table.comm_destroy, "ncclCommDestroy");
  visit(table.comm_abort, "ncclCommAbort");
  visit(table.all_reduce, "ncclAllReduce");
  visit(table.all_gather, "ncclAllGather");
  visit(table.send, "ncclSend");
  visit(table.receive, "ncclRecv");
}

}  // namespace

NcclLibrary::NcclLibrary(const std::string& file_name) {
  const kernels::cuda::CudaLibrary library(file_name);
  if (!library.open()) {
    why_ = "NCCL: " + library.why();
    return;
  }
  why_ = library.FillTable(functions_,
                           [](auto& table, const auto& body) { VisitFunctions(table, body); });
  if (why_.empty()) ReadVersion();
}

NcclLibrary::NcclLibrary(const NcclFunctions& functions) : functions_(functions) {
  VisitFunctions(functions_, [](auto& function, const char*) { CHECK(function != nullptr); });
  ReadVersion();
}

void NcclLibrary::ReadVersion() {
  int version = 0;
  if (functions_.get_version(&version) != ncclSuccess) {
    why_ = "NCCL does not tell its version";
  } else if (version < kOldestVersion) {
    why_ = "NCCL " + kernels::cuda::PackedVersionText(version) + " is older than " +
           kernels::cuda::PackedVersionText(kOldestVersion);
  } else {
    version_ = kernels::cuda::PackedVersionText(version);
  }
}

std::shared_ptr<const NcclLibrary> FindNccl() {
  const NcclFinder finder = nccl_finder;
  if (finder != nullptr) return finder();
  static const auto library = std::make_shared<const NcclLibrary>();
  return library;
}

void SetNcclFinder(NcclFinder finder) { nccl_finder = finder; }

}  // namespace twin::exec::cuda
