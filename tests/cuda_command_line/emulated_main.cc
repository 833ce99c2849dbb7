// twinserve whose CUDA devices are emulated (tests/cuda_emulation). They are described by the
// environment:
//
//   TWIN_EMULATED_DEVICES     how many there are (1)
//   TWIN_EMULATED_MIB         memory of each (2048)
//   TWIN_EMULATED_CAPABILITY  90: compute capability 9.0
//   TWIN_EMULATED_FAILURE     FUNCTION:N:CODE, the N-th call fails with that cudaError_t
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "apps/run_command_line.h"
#include "exec/cuda/cublaslt_provider.h"
#include "tests/cuda_emulation/emulated_cublaslt.h"
#include "tests/cuda_emulation/emulated_device.h"

namespace twin {
namespace {

using kernels::cuda::CublasLtLibrary;

std::string TextOf(const char* variable) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? text : "";
}

int NumberOf(const char* variable, int otherwise) {
  const std::string text = TextOf(variable);
  return text.empty() ? otherwise : std::atoi(text.c_str());
}

void Describe() {
  cuda_emulation::ResetDevice(
      {.devices = NumberOf("TWIN_EMULATED_DEVICES", 1),
       .memory_bytes = static_cast<std::size_t>(NumberOf("TWIN_EMULATED_MIB", 2048)) << 20,
       .compute_capability = NumberOf("TWIN_EMULATED_CAPABILITY", 90)});
  char function[64];
  int call = 0;
  int code = 0;
  const std::string failure = TextOf("TWIN_EMULATED_FAILURE");
  if (std::sscanf(failure.c_str(), "%63[A-Za-z0-9]:%d:%d", function, &call, &code) == 3) {
    cuda_emulation::FailCall(function, call, static_cast<cudaError_t>(code));
  }
  exec::cuda::SetCublasLtFinder(
      [] { return std::make_unique<CublasLtLibrary>(cuda_emulation::EmulatedCublasLt()); });
}

}  // namespace
}  // namespace twin

int main(int argc, char** argv) {
  twin::Describe();
  return twin::apps::RunCommandLine(argc, argv);
}
