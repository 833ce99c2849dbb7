// Writes trace.pftrace: a run as a picture, for ui.perfetto.dev.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "core/ids.h"
#include "core/step_parts.h"
#include "run/files/message_output.h"
#include "run/record/run_observer.h"

namespace twin {

class PerfettoPackets;

struct PerfettoOptions {
  std::int32_t kv_blocks = 0;            // usable device blocks
  std::int32_t request_lanes_max = 256;  // requests in the system at once that are drawn
  std::int64_t requests_max = 100'000;   // requests that are drawn at all
  Compression compression = Compression::kNone;
  std::uint32_t process = 1;  // unique among the runs of one file
  std::string process_name = "replica 0";
};

// Tracks
//   steps       one slice per step, from its start on the device to its end, named by what it does:
//               prefill, decode, mixed, swap, or idle (no work); steps that overlap (pipeline
//               stages, asynchronous scheduling) are drawn on further lanes
//   step parts  of real runs: schedule, build, gemm, attention, communication, other and sampling
//               in each step. Each part is one slice, as long as the step spent on it in total:
//               layers alternate between parts, the slices do not
//   delivery    of real runs: from the end of a step on the device until the engine is told
//   requests    a lane for each request in the system, reused by later ones: the slice "request N"
//               and in it queued, prefill, decode, preempted, swapped. A phase begins when the step
//               that begins it is planned, but not before the steps of the phase before it have
//               returned: asynchronous scheduling plans the first decode while the prefill runs
//   counters    running and waiting requests, share of the KV blocks held or reserved, tokens in
//               the step, and the number of requests that were left without a lane
//
// Several runs can share one file, each as a process of its own on the same time axis.
// Streams: memory is bounded by the lanes. About 40 bytes per step's slice and 60 per phase of a
// request. Throws std::system_error if the file cannot be written.
class PerfettoWriter : public RunObserver {
 public:
  // Writes a file of its own, which appears under its name when Finish() returns.
  PerfettoWriter(const std::filesystem::path& path, const PerfettoOptions& options);
  // Adds a process to a file, which the caller commits after Finish(). Borrows the file.
  PerfettoWriter(MessageOutput& file, const PerfettoOptions& options);
  ~PerfettoWriter() override;

  void OnInstant(const Instant& instant) override;
  void OnPlan(TimePoint now, const StepPlan& plan) override;

  // Draws the parts of a step. Steps in the order of planning, at any time before Finish().
  void AddParts(StepId id, const StepTimes& times);

  // Ends what is still going on at the latest instant. REQUIRES: called once, after the run.
  void Finish();

 private:
  class Lanes;
  class StepTracks;
  class RequestTracks;
  class Counters;

  void Begin(MessageOutput& file, const PerfettoOptions& options);

  TimePoint latest_ = kTimeZero;
  std::unique_ptr<MessageOutput> file_;  // null: the caller's
  std::unique_ptr<PerfettoPackets> packets_;
  std::unique_ptr<StepTracks> steps_;
  std::unique_ptr<RequestTracks> requests_;
  std::unique_ptr<Counters> counters_;
};

}  // namespace twin
