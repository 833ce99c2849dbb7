// Streams, events, captures and graphs of the emulated runtime.
#include <algorithm>
#include <utility>

#include "tests/cuda_emulation/emulated_state.h"

namespace twin::cuda_emulation {
namespace {

cudaError_t NewStream(cudaStream_t* handle, unsigned flags) {
  if (handle == nullptr || (flags & ~unsigned{cudaStreamNonBlocking}) != 0) {
    return cudaErrorInvalidValue;
  }
  auto owner = std::make_unique<CUstream_st>();
  owner->stream = std::make_shared<Stream>();
  owner->stream->blocking = flags != cudaStreamNonBlocking;
  owner->stream->device = CurrentDevice();
  *handle = owner.get();
  TheState().streams[*handle] = std::move(owner);
  return cudaSuccess;
}

cudaError_t NewEvent(cudaEvent_t* handle, unsigned flags) {
  if (handle == nullptr) return cudaErrorInvalidValue;
  auto owner = std::make_unique<CUevent_st>();
  owner->event = std::make_shared<Event>();
  owner->event->has_time = (flags & cudaEventDisableTiming) == 0;
  *handle = owner.get();
  TheState().events[*handle] = std::move(owner);
  return cudaSuccess;
}

EventPointer FindEvent(cudaEvent_t handle) {
  const auto found = TheState().events.find(handle);
  return found == TheState().events.end() ? nullptr : found->second->event;
}

cudaError_t Record(const EventPointer& event, const StreamPointer& stream) {
  auto recording = std::make_shared<Recording>();
  recording->stream = stream;
  const Operation operation = [recording, device = stream->device] {
    const std::lock_guard lock(recording->mutex);
    recording->time = BusyTime(device);
    recording->done = true;
  };
  if (const cudaError_t error = Submit(stream, operation)) return error;
  recording->number = stream->enqueued();
  event->recording = std::move(recording);
  event->capture = nullptr;
  return cudaSuccess;
}

cudaError_t RecordOrCapture(const EventPointer& event, const StreamPointer& stream, bool external) {
  const std::shared_ptr<Capture>& capture = stream->capture;
  if (capture == nullptr) return external ? cudaErrorInvalidValue : Record(event, stream);
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (external) {
    capture->Add(stream.get(), {nullptr, event});
  } else {
    event->capture = capture;
    event->seen = capture->seen[stream.get()];
  }
  return cudaSuccess;
}

// A wait for an event of a capture makes the stream part of it.
cudaError_t WaitInCapture(const StreamPointer& stream, const Event& event) {
  if (stream->capture != nullptr && stream->capture != event.capture) {
    stream->capture->invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  stream->capture = event.capture;
  stream->capture->last = nullptr;
  auto& seen = stream->capture->seen[stream.get()];
  for (const auto& [other, count] : event.seen) seen[other] = std::max(seen[other], count);
  return cudaSuccess;
}

// Waits for the recording of an event outside of the lock.
cudaError_t Await(Lock& lock, const EventPointer& event) {
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  if (event->capture != nullptr) {
    event->capture->invalid = true;
    return cudaErrorCapturedEvent;
  }
  if (const cudaError_t error = CheckAllowedBesideCaptures()) return error;
  if (const auto recording = event->recording) {
    lock.unlock();
    recording->Wait();
    lock.lock();
  }
  return Outcome();
}

cudaError_t AwaitStream(Lock& lock, const StreamPointer& stream) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->capture != nullptr) {
    stream->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  lock.unlock();
  stream->Drain();
  lock.lock();
  return Outcome();
}

cudaError_t EndCapture(const StreamPointer& stream, cudaGraph_t* graph) {
  State& state = TheState();
  *graph = nullptr;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr || capture->origin != stream.get()) return cudaErrorIllegalState;
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  const bool joined = capture->Joined();
  state.captures.erase(capture);
  for (const auto& [handle, owner] : state.streams) {
    if (owner->stream->capture == capture) owner->stream->capture = nullptr;
  }
  auto owner = std::make_unique<CUgraph_st>(CUgraph_st{std::move(capture->parts)});
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  *graph = owner.get();
  state.graphs[*graph] = std::move(owner);
  return cudaSuccess;
}

cudaError_t LaunchGraph(const CUgraphExec_st& executable, const StreamPointer& stream) {
  if (stream->capture != nullptr) return cudaErrorStreamCaptureUnsupported;
  DeviceCounts& counts = TheState().counts;
  counts.nodes_of_last_graph = counts.kernels_of_last_graph = 0;
  for (const GraphPart& part : executable.parts) {
    ++counts.nodes_of_last_graph;
    if (part.operation.is_kernel) ++counts.kernels_of_last_graph;
    const cudaError_t error =
        part.event != nullptr ? Record(part.event, stream) : Submit(stream, part.operation);
    if (error != cudaSuccess) return error;
  }
  ++counts.graph_launches;
  return cudaSuccess;
}

}  // namespace
}  // namespace twin::cuda_emulation

// The names of the runtime's functions are its own.
using namespace twin::cuda_emulation;  // NOLINT(google-build-using-namespace)

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return Call(__func__, [&](Lock&) { return NewStream(stream, cudaStreamDefault); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return Call(__func__, [&](Lock&) { return NewStream(stream, flags); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return Call(__func__, [&](Lock&) { return NewStream(stream, flags); });
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return Call(__func__, [&](Lock& lock) {
    const StreamPointer stream = handle == nullptr ? nullptr : FindStream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    lock.unlock();
    stream->Drain();  // a real one goes on with what it was given
    lock.lock();
    TheState().streams.erase(handle);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return Call(__func__, [&](Lock& lock) {
    ++TheState().counts.synchronisations;
    return AwaitStream(lock, FindStream(handle));
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return Call(__func__, [&](Lock& lock) { return AwaitStream(lock, FindStream(handle)); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned flags) {
  return Call(__func__, [&](Lock&) {
    const StreamPointer stream = FindStream(handle);
    const EventPointer event = FindEvent(event_handle);
    if (stream == nullptr || event == nullptr) return cudaErrorInvalidResourceHandle;
    if (flags != cudaEventWaitDefault) return cudaErrorNotSupported;
    if (event->capture != nullptr) return WaitInCapture(stream, *event);
    if (stream->capture != nullptr) {
      stream->capture->invalid = true;
      return cudaErrorStreamCaptureIsolation;
    }
    if (event->recording == nullptr) return cudaSuccess;
    return Submit(stream, [recording = event->recording] { recording->Wait(); });
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return Call(__func__, [&](Lock&) { return NewEvent(event, cudaEventDefault); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return Call(__func__, [&](Lock&) { return NewEvent(event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return Call(__func__, [&](Lock&) {
    return TheState().events.erase(handle) == 1 ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream_handle,
                                     unsigned flags) {
  return Call(__func__, [&](Lock&) {
    const StreamPointer stream = FindStream(stream_handle);
    const EventPointer event = FindEvent(handle);
    if (stream == nullptr || event == nullptr) return cudaErrorInvalidResourceHandle;
    return RecordOrCapture(event, stream, flags == cudaEventRecordExternal);
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return Call(__func__, [&](Lock& lock) {
    ++TheState().counts.synchronisations;
    return Await(lock, FindEvent(handle));
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return Call(__func__, [&](Lock& lock) {
    const EventPointer event = FindEvent(handle);
    if (TheState().hangs && event != nullptr && event->recording != nullptr) {
      const std::scoped_lock recording(event->recording->mutex);
      return event->recording->done ? cudaSuccess : cudaErrorNotReady;
    }
    return Await(lock, event);
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return Call(__func__, [&](Lock&) {
    const EventPointer first = FindEvent(begin);
    const EventPointer last = FindEvent(end);
    if (first == nullptr || last == nullptr) return cudaErrorInvalidResourceHandle;
    if (first->recording == nullptr || last->recording == nullptr || !first->has_time ||
        !last->has_time) {
      return cudaErrorInvalidResourceHandle;
    }
    const std::scoped_lock both(first->recording->mutex);
    std::chrono::nanoseconds until = first->recording->time;
    if (!first->recording->done) return cudaErrorNotReady;
    if (last->recording != first->recording) {
      const std::scoped_lock other(last->recording->mutex);
      if (!last->recording->done) return cudaErrorNotReady;
      until = last->recording->time;
    }
    *milliseconds =
        std::chrono::duration<float, std::milli>(until - first->recording->time).count();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return Call(__func__, [&](Lock&) {
    const StreamPointer stream = FindStream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (handle == nullptr) return cudaErrorStreamCaptureUnsupported;
    if (stream->capture != nullptr) return cudaErrorIllegalState;
    stream->capture = std::make_shared<Capture>();
    stream->capture->origin = stream.get();
    stream->capture->mode = mode;
    stream->capture->thread = std::this_thread::get_id();
    TheState().captures.insert(stream->capture);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return Call(__func__, [&](Lock&) {
    const StreamPointer stream = FindStream(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : EndCapture(stream, graph);
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return Call(__func__, [&](Lock&) {
    const StreamPointer stream = FindStream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *status = stream->capture == nullptr ? cudaStreamCaptureStatusNone
              : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                         : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  return Call(__func__, [&](Lock&) {
    State& state = TheState();
    if (executable == nullptr || !state.graphs.contains(graph)) return cudaErrorInvalidValue;
    auto owner = std::make_unique<CUgraphExec_st>(CUgraphExec_st{graph->parts});
    *executable = owner.get();
    state.executables[*executable] = std::move(owner);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  return Call(__func__, [&](Lock&) {
    const StreamPointer stream = FindStream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (!TheState().executables.contains(executable)) return cudaErrorInvalidValue;
    return LaunchGraph(*executable, stream);
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t handle) {
  return Call(__func__, [&](Lock&) {
    if (FindStream(handle) == nullptr) return cudaErrorInvalidResourceHandle;
    return TheState().executables.contains(executable) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return Call(__func__, [&](Lock&) {
    return TheState().graphs.erase(graph) == 1 ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return Call(__func__, [&](Lock&) {
    return TheState().executables.erase(executable) == 1 ? cudaSuccess : cudaErrorInvalidValue;
  });
}
