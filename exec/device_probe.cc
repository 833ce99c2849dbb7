#include "exec/device_probe.h"

#include <array>

#include "exec/shared_library.h"
#include "kernels/cuda/cuda_library.h"

namespace twin::exec {
namespace {

constexpr int kSuccess = 0;  // ncclSuccess, MPI_SUCCESS

// Sonames of Open MPI 4 and 5, and of MPICH.
constexpr std::array<const char*, 2> kMpiLibraries = {"libmpi.so.40", "libmpi.so.12"};
constexpr const char* kNcclLibrary = "libnccl.so.2";

}  // namespace

LibraryStatus ProbeNccl() {
  const SharedLibrary library(kNcclLibrary);
  if (!library.open()) return {.version = "", .reason = library.why()};
  auto* const get_version = library.Find<int(int*)>("ncclGetVersion");
  int version = 0;
  if (get_version == nullptr || get_version(&version) != kSuccess) {
    return {.version = "", .reason = std::string(kNcclLibrary) + " does not tell its version"};
  }
  return {.version = kernels::cuda::PackedVersionText(version), .reason = ""};
}

LibraryStatus ProbeMpi() {
  // MPI_MAX_LIBRARY_VERSION_STRING: 256 in Open MPI, 8192 in MPICH.
  constexpr std::size_t kLongestText = 8192;
  std::string reason;
  for (const char* const name : kMpiLibraries) {
    const SharedLibrary library(name);
    if (!library.open()) {
      if (reason.empty()) reason = library.why();
      continue;
    }
    // May be called before MPI_Init.
    auto* const get_version = library.Find<int(char*, int*)>("MPI_Get_library_version");
    std::string text(kLongestText, '\0');
    int length = 0;
    if (get_version == nullptr || get_version(text.data(), &length) != kSuccess) {
      return {.version = "", .reason = std::string(name) + " does not tell its version"};
    }
    text.resize(text.find_first_of(std::string_view(",\n\0", 3)));
    return {.version = text, .reason = ""};
  }
  return {.version = "", .reason = reason};
}

std::string CudaVersionText(std::int32_t version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace twin::exec
