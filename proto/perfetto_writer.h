// trace.pftrace: a run as a picture, for ui.perfetto.dev.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "proto/message_output.h"
#include "record/run_observer.h"

namespace twin {

class PerfettoPackets;

struct PerfettoOptions {
  std::int32_t kv_blocks = 0;            // usable device blocks
  std::int32_t request_lanes_max = 256;  // requests in the system at once that are drawn
  std::int64_t requests_max = 100'000;   // requests that are drawn at all
  Compression compression = Compression::kNone;
};

// Tracks
//   steps       one slice a step, from its start on the device to its end, named by what it does:
//               prefill, decode, mixed, swap, or idle (no work); steps that overlap (pipeline
//               stages, asynchronous scheduling) lie on further lanes
//   requests    a lane for each request in the system, reused: one slice for the request and in it
//               queued, prefill, decode, preempted, swapped; phases begin when the step that
//               begins them is planned
//   counters    running and waiting requests, share of the KV blocks held or reserved, tokens in
//               the step; and the number of requests that were left without a lane
//
// Streams: memory is bounded by the lanes. About 40 bytes a step's slice and 60 a request's phase.
// The file exists only once Finish() has returned; throws std::system_error if it cannot be
// written.
class PerfettoWriter : public RunObserver {
 public:
  PerfettoWriter(const std::filesystem::path& path, const PerfettoOptions& options);
  ~PerfettoWriter() override;

  void OnInstant(const Instant& instant) override;
  void OnPlan(TimePoint now, const StepPlan& plan) override;

  // Ends what is still going on at the latest instant. REQUIRES: called once, after the run.
  void Finish();

 private:
  class StepTracks;
  class RequestTracks;
  class Counters;

  TimePoint latest_ = kTimeZero;
  std::unique_ptr<PerfettoPackets> packets_;
  std::unique_ptr<StepTracks> steps_;
  std::unique_ptr<RequestTracks> requests_;
  std::unique_ptr<Counters> counters_;
};

}  // namespace twin
