#include "kernels/cuda/event.h"

#include <cuda_runtime_api.h>

#include <cmath>

#include "core/time.h"

namespace twin::kernels::cuda {

Event::Event(Kind kind) {
  const unsigned flags = kind == Kind::kTimed ? cudaEventDefault : cudaEventDisableTiming;
  CheckCuda(cudaEventCreateWithFlags(&event_, flags), "cudaEventCreate");
}

Event::~Event() {
  if (event_ != nullptr) cudaEventDestroy(event_);
}

void Event::Record(StreamView stream) const {
  CheckCuda(cudaEventRecord(event_, stream.get()), "cudaEventRecord");
}

void Event::RecordInGraph(StreamView stream) const {
  CheckCuda(cudaEventRecordWithFlags(event_, stream.get(), cudaEventRecordExternal),
            "cudaEventRecordWithFlags");
}

void Event::MakeWait(StreamView stream) const {
  CheckCuda(cudaStreamWaitEvent(stream.get(), event_, cudaEventWaitDefault), "cudaStreamWaitEvent");
}

void Event::Await(const char* what) const {
  AwaitDevice(what, [this] { return Passed(); });
}

bool Event::Passed() const {
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();  // not an error here: clear it for later checks
    return false;
  }
  CheckCuda(status, "a step on the device");
  return true;
}

std::int64_t NanosecondsBetween(const Event& from, const Event& to) {
  float milliseconds = 0;
  CheckCuda(cudaEventElapsedTime(&milliseconds, from.get(), to.get()), "cudaEventElapsedTime");
  return DurationFromNanoseconds(std::round(static_cast<double>(milliseconds) * 1e6)).count();
}

}  // namespace twin::kernels::cuda
