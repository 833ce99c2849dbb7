#include "exec/cuda/stream.h"

#include <cuda_runtime_api.h>

namespace twin::exec::cuda {

Stream::Stream(Priority priority) {
  int least = 0;
  int greatest = 0;
  CheckCuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaStreamPriorityRange");
  CheckCuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                         priority == Priority::kHigh ? greatest : least),
            "cudaStreamCreate");
}

Stream::~Stream() {
  AwaitStreamQuietly(view());
  if (!kernels::cuda::DeviceHangs()) cudaStreamDestroy(stream_);
}

void Stream::Await() const { AwaitStream(view(), "work on the device"); }

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
  // Upload now, so that the first launch does not have to.
  CheckCuda(cudaGraphUpload(graph.graph_, stream.get()), "cudaGraphUpload");
  return graph;
}

void Graph::Launch(StreamView stream) const {
  CheckCuda(cudaGraphLaunch(graph_, stream.get()), "cudaGraphLaunch");
}

}  // namespace twin::exec::cuda
