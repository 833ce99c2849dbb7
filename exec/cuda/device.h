// A CUDA device ready for computation, with its streams and cuBLASLt.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "exec/cuda/stream.h"
#include "kernels/cuda/gemm.h"

namespace twin::exec::cuda {

// The constructor and Use() make the device current on the calling thread. Create at most one
// object per device and process.
class Device {
 public:
  // Throws InputError (usage) if the device does not exist, this build has no code for it, or
  // cuBLASLt is not found; the message says what was searched for.
  Device(std::int32_t ordinal, const std::filesystem::path& algorithm_cache);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Each thread must call this before it enqueues work on the device.
  void Use() const;

  [[nodiscard]] StreamView compute() const { return compute_->view(); }
  [[nodiscard]] StreamView swap() const { return swap_->view(); }
  [[nodiscard]] kernels::cuda::Gemm& gemm() { return *gemm_; }

  [[nodiscard]] const std::string& name() const { return name_; }
  // The compute capability: 90 means 9.0.
  [[nodiscard]] std::int32_t compute_capability() const { return compute_capability_; }
  // True if cuBLASLt multiplies fp8 matrices here. Weights of fp8 are widened otherwise.
  [[nodiscard]] bool multiplies_fp8() const;
  // A description such as "NVIDIA H100, 80 GB, compute capability 9.0, cuBLASLt 13.1.0".
  [[nodiscard]] const std::string& description() const { return description_; }

 private:
  std::int32_t ordinal_;
  std::string name_;
  std::int32_t compute_capability_ = 0;
  std::string description_;
  std::unique_ptr<kernels::cuda::CublasLtLibrary> library_;
  std::unique_ptr<Stream> compute_;
  std::unique_ptr<Stream> swap_;
  std::unique_ptr<kernels::cuda::Gemm> gemm_;
};

}  // namespace twin::exec::cuda
