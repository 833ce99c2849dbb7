#include "proto/perfetto_writer.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/id_window.h"
#include "core/ring_queue.h"
#include "proto/perfetto_packets.h"

namespace twin {

using namespace perfetto;

// Steps as slices, on as many lanes as steps overlap.
class PerfettoWriter::StepTracks {
 public:
  explicit StepTracks(PerfettoPackets& packets) : packets_(packets) {}

  void Plan(const StepPlan& plan) { in_flight_.PushBack(&plan); }

  void End(const StepFinished& finished, TimePoint now) {
    CHECK(!in_flight_.empty());
    const StepPlan& plan = *in_flight_.PopFront();
    CHECK(plan.id == finished.step);
    const TimePoint started = std::min(finished.started, now);
    const std::uint64_t track = kStepTracks + FindLane(started);
    lanes_[track - kStepTracks] = now;
    packets_.BeginSlice(track, started, Kind(plan), Category::kStep,
                        {{Note::kStep, static_cast<std::int64_t>(Index(plan.id))},
                         {Note::kTokens, plan.totals.tokens()},
                         {Note::kPrefillTokens, plan.totals.prefill_tokens},
                         {Note::kDecodes, plan.totals.decode_items},
                         {Note::kFreeBlocks, plan.free_blocks}});
    packets_.EndSlice(track, now);
  }

 private:
  static Slice Kind(const StepPlan& plan) {
    const bool prefills = plan.totals.prefill_items > 0;
    const bool decodes = plan.totals.decode_items > 0;
    if (prefills && decodes) return Slice::kMixed;
    if (prefills) return Slice::kPrefill;
    if (decodes || !plan.padding_rows.empty()) return Slice::kDecode;
    const auto by_swap = [](const Preemption& p) { return p.how == Preemption::How::kSwap; };
    const bool swaps =
        !plan.resumed.empty() || std::any_of(plan.preempted.begin(), plan.preempted.end(), by_swap);
    return swaps ? Slice::kSwap : Slice::kIdle;
  }

  // The first lane that is free at `time`.
  std::size_t FindLane(TimePoint time) {
    const auto free = std::find_if(lanes_.begin(), lanes_.end(),
                                   [time](TimePoint busy_until) { return busy_until <= time; });
    const auto lane = static_cast<std::size_t>(free - lanes_.begin());
    if (free == lanes_.end()) {
      lanes_.push_back(kTimeZero);
      const std::string name = lane == 0 ? "steps" : "steps, lane " + std::to_string(lane + 1);
      packets_.DescribeTrack(kStepTracks + lane, kProcessTrack, name,
                             static_cast<std::int32_t>(lane));
    }
    return lane;
  }

  PerfettoPackets& packets_;
  RingQueue<const StepPlan*> in_flight_;
  std::vector<TimePoint> lanes_;  // busy until
};

// Requests as slices with their phases inside, each on a lane of its own while it is there.
class PerfettoWriter::RequestTracks {
 public:
  RequestTracks(PerfettoPackets& packets, const PerfettoOptions& options)
      : packets_(packets), options_(options) {}

  // False: there is no lane left.
  bool Arrive(const Request& request, TimePoint now) {
    if (drawn_ >= options_.requests_max) return false;
    if (free_lanes_.empty() && lanes_ >= options_.request_lanes_max) return false;
    ++drawn_;
    Drawn& drawn = drawn_requests_.Open(request.id);
    drawn = {kRequestTracks + TakeLane(), Slice::kQueued};
    packets_.BeginSlice(drawn.track, now, Slice::kRequest, Category::kRequest,
                        {{Note::kRequest, Index(request.id)},
                         {Note::kPromptTokens, request.prompt_tokens},
                         {Note::kMaxOutputTokens, request.max_output_tokens},
                         {Note::kTenant, request.tenant}});
    packets_.BeginSlice(drawn.track, now, Slice::kQueued, Category::kRequest);
    return true;
  }

  void Follow(const StepPlan& plan, TimePoint now) {
    for (const Preemption& preemption : plan.preempted) {
      const bool swapped = preemption.how == Preemption::How::kSwap;
      Enter(preemption.request, swapped ? Slice::kSwapped : Slice::kPreempted, now);
    }
    for (const WorkItem& item : plan.work) {
      Enter(item.request, item.phase == Phase::kDecode ? Slice::kDecode : Slice::kPrefill, now);
    }
    for (const Rejection& rejection : plan.rejected) {
      Enter(rejection.request, Slice::kRejected, now);
      Leave(rejection.request, now);
    }
  }

  void Finish(const StepFinished& finished, TimePoint now) {
    for (const ItemOutcome& outcome : finished.outcomes) {
      if (outcome.finish != FinishReason::kNone) Leave(outcome.request, now);
    }
  }

  void Cancel(RequestId id, TimePoint now) {
    Enter(id, Slice::kCancelled, now);
    Leave(id, now);
  }

  void CloseAll(TimePoint now) {
    drawn_requests_.ForEach([&](RequestId, const Drawn& drawn) { Close(drawn, now); });
  }

 private:
  struct Drawn {
    std::uint64_t track = 0;
    Slice phase{};
  };

  std::uint64_t TakeLane() {
    if (!free_lanes_.empty()) {
      const std::int32_t lane = free_lanes_.top();
      free_lanes_.pop();
      return static_cast<std::uint64_t>(lane);
    }
    const auto lane = static_cast<std::uint64_t>(lanes_);
    packets_.DescribeTrack(kRequestTracks + lane, kRequestsTrack,
                           "lane " + std::to_string(lane + 1), lanes_);
    ++lanes_;
    return lane;
  }

  void Enter(RequestId id, Slice phase, TimePoint now) {
    if (!drawn_requests_.contains(id)) return;
    Drawn& drawn = drawn_requests_[id];
    if (drawn.phase == phase) return;
    drawn.phase = phase;
    packets_.EndSlice(drawn.track, now);
    packets_.BeginSlice(drawn.track, now, phase, Category::kRequest);
  }

  void Close(const Drawn& drawn, TimePoint now) {
    packets_.EndSlice(drawn.track, now);  // the phase
    packets_.EndSlice(drawn.track, now);  // the request
  }

  void Leave(RequestId id, TimePoint now) {
    if (!drawn_requests_.contains(id)) return;
    const Drawn drawn = drawn_requests_[id];
    Close(drawn, now);
    free_lanes_.push(static_cast<std::int32_t>(drawn.track - kRequestTracks));
    drawn_requests_.Close(id);
  }

  PerfettoPackets& packets_;
  PerfettoOptions options_;
  std::int64_t drawn_ = 0;
  std::int32_t lanes_ = 0;
  std::priority_queue<std::int32_t, std::vector<std::int32_t>, std::greater<>> free_lanes_;
  IdWindow<Drawn> drawn_requests_;
};

// Values over time; only changes are written.
class PerfettoWriter::Counters {
 public:
  enum Which : std::uint8_t { kRunning, kWaiting, kKvUse, kTokens, kUndrawn };

  Counters(PerfettoPackets& packets, std::int32_t kv_blocks)
      : packets_(packets), kv_blocks_(kv_blocks) {
    Describe(kRunning, "running requests", "requests");
    Describe(kWaiting, "waiting requests", "requests");
    Describe(kKvUse, "KV cache use", "%");
    Describe(kTokens, "tokens in step", "tokens");
  }

  void Follow(const StepPlan& plan, TimePoint now) {
    Set(kRunning, now, plan.running);
    Set(kWaiting, now, plan.waiting);
    if (kv_blocks_ > 0) Set(kKvUse, now, 100.0 * (kv_blocks_ - plan.free_blocks) / kv_blocks_);
    Set(kTokens, now, static_cast<double>(plan.totals.tokens()));
  }

  void LeaveUndrawn(TimePoint now) {
    if (undrawn_ == 0) Describe(kUndrawn, "requests that are not drawn", "requests");
    Set(kUndrawn, now, static_cast<double>(++undrawn_));
  }

 private:
  void Describe(Which which, const std::string& name, const std::string& unit) {
    constexpr std::int32_t kBehindSteps = 1'000'000;
    packets_.DescribeCounter(kCounterTracks + which, kProcessTrack, name, unit,
                             kBehindSteps + which);
  }

  void Set(Which which, TimePoint now, double value) {
    if (values_[which] == value) return;
    values_[which] = value;
    packets_.Count(kCounterTracks + which, now, value);
  }

  PerfettoPackets& packets_;
  std::int32_t kv_blocks_;
  std::int64_t undrawn_ = 0;
  std::array<double, 5> values_ = {-1, -1, -1, -1, -1};
};

PerfettoWriter::PerfettoWriter(const std::filesystem::path& path, const PerfettoOptions& options)
    : packets_(std::make_unique<PerfettoPackets>(path, options.compression)) {
  packets_->DescribeProcess(kProcessTrack, "replica 0");
  packets_->DescribeTrack(kRequestsTrack, kProcessTrack, "requests", 2'000'000);
  steps_ = std::make_unique<StepTracks>(*packets_);
  requests_ = std::make_unique<RequestTracks>(*packets_, options);
  counters_ = std::make_unique<Counters>(*packets_, options.kv_blocks);
}

PerfettoWriter::~PerfettoWriter() = default;

void PerfettoWriter::OnInstant(const Instant& instant) {
  latest_ = instant.now;
  for (const Event& event : instant.events) {
    if (const auto* finished = std::get_if<StepFinished>(&event)) {
      steps_->End(*finished, instant.now);
      requests_->Finish(*finished, instant.now);
    } else if (const auto* cancelled = std::get_if<RequestCancelled>(&event)) {
      requests_->Cancel(cancelled->request, instant.now);
    } else if (const auto* arrived = std::get_if<RequestArrived>(&event)) {
      if (!requests_->Arrive(arrived->request, instant.now)) {
        counters_->LeaveUndrawn(instant.now);
      }
    }
  }
}

void PerfettoWriter::OnPlan(TimePoint now, const StepPlan& plan) {
  steps_->Plan(plan);
  requests_->Follow(plan, now);
  counters_->Follow(plan, now);
}

void PerfettoWriter::Finish() {
  requests_->CloseAll(latest_);
  packets_->Commit();
}

}  // namespace twin
