// A plan of attention that travels by itself, for callers that send nothing else with it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/device_memory.h"

namespace twin::kernels::cuda {

class SentPlan {
 public:
  // Plans `work` and enqueues the copy of the plan. The plan has the same address as before if it
  // needs no more room. REQUIRES: the stream has done what was enqueued for the plan before.
  void Plan(StreamView stream, PagedAttention& attention, AttentionWork work) {
    const std::int64_t bytes = attention.PlanBytesMax();
    if (bytes > device_.bytes()) {
      host_ = PinnedBuffer(bytes, "a plan");
      device_ = DeviceBuffer(bytes, "a plan");
    }
    work.host_plan = host_.data();
    work.device_plan = device_.data();
    attention.Plan(work);
    const auto sent = static_cast<std::size_t>(attention.PlanBytes(work));
    if (sent == 0) return;
    CheckCuda(
        cudaMemcpyAsync(device_.data(), host_.data(), sent, cudaMemcpyHostToDevice, stream.get()),
        "a copy of a plan");
  }

 private:
  PinnedBuffer host_;
  DeviceBuffer device_;
};

}  // namespace twin::kernels::cuda
