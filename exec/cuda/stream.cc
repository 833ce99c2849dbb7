#include "exec/cuda/stream.h"

#include <cuda_runtime_api.h>

#include <cmath>

namespace twin::exec::cuda {

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

void Event::Await() const { CheckCuda(cudaEventSynchronize(event_), "a step on the device"); }

bool Event::Passed() const {
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();  // an answer here, but a failure to whoever asks for the last error
    return false;
  }
  CheckCuda(status, "a step on the device");
  return true;
}

std::int64_t NanosecondsBetween(const Event& from, const Event& to) {
  float milliseconds = 0;
  CheckCuda(cudaEventElapsedTime(&milliseconds, from.get(), to.get()), "cudaEventElapsedTime");
  return std::llround(static_cast<double>(milliseconds) * 1e6);
}

Stream::Stream(Priority priority) {
  int least = 0;
  int greatest = 0;
  CheckCuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaStreamPriorityRange");
  CheckCuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                         priority == Priority::kHigh ? greatest : least),
            "cudaStreamCreate");
}

Stream::~Stream() {
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

void Stream::Await() const { CheckCuda(cudaStreamSynchronize(stream_), "work on the device"); }

Graph::~Graph() {
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
}

void Graph::Begin(StreamView stream) {
  CheckCuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal),
            "cudaStreamBeginCapture");
}

void Graph::GiveUp(StreamView stream) {
  cudaGraph_t captured = nullptr;
  cudaStreamEndCapture(stream.get(), &captured);
  if (captured != nullptr) cudaGraphDestroy(captured);
  cudaGetLastError();
}

Graph Graph::End(StreamView stream) {
  cudaGraph_t captured = nullptr;
  CheckCuda(cudaStreamEndCapture(stream.get(), &captured), "cudaStreamEndCapture");
  Graph graph;
  const cudaError_t error = cudaGraphInstantiate(&graph.graph_, captured, 0);
  cudaGraphDestroy(captured);
  CheckCuda(error, "cudaGraphInstantiate");
  // Now, not as a part of the first launch.
  CheckCuda(cudaGraphUpload(graph.graph_, stream.get()), "cudaGraphUpload");
  return graph;
}

void Graph::Launch(StreamView stream) const {
  CheckCuda(cudaGraphLaunch(graph_, stream.get()), "cudaGraphLaunch");
}

}  // namespace twin::exec::cuda
