#include "run/files/perfetto_writer.h"

#include <fmt/format.h>

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
#include "run/files/perfetto_packets.h"

namespace twin {

using namespace perfetto;  // NOLINT(google-build-using-namespace): names of the format

// Tracks that show overlapping slices side by side.
class PerfettoWriter::Lanes {
 public:
  // Lanes are the tracks from `first_track` on, `rank` is the place of the first one.
  Lanes(PerfettoPackets& packets, std::uint64_t first_track, std::string name, std::int32_t rank)
      : packets_(packets), first_track_(first_track), name_(std::move(name)), rank_(rank) {}

  // The first track that is free from `begin` on; it is taken until `end`.
  std::uint64_t Take(TimePoint begin, TimePoint end) {
    const auto free = std::find_if(busy_until_.begin(), busy_until_.end(),
                                   [begin](TimePoint until) { return until <= begin; });
    const auto lane = static_cast<std::size_t>(free - busy_until_.begin());
    if (free == busy_until_.end()) {
      busy_until_.emplace_back();
      packets_.DescribeTrack(first_track_ + lane, kProcessTrack,
                             lane == 0 ? name_ : fmt::format("{}, lane {}", name_, lane + 1),
                             rank_ + static_cast<std::int32_t>(lane));
    }
    busy_until_[lane] = end;
    return first_track_ + lane;
  }

 private:
  PerfettoPackets& packets_;
  std::uint64_t first_track_;
  std::string name_;
  std::int32_t rank_;
  std::vector<TimePoint> busy_until_;
};

// Draws steps as slices, and the parts of each step's time.
class PerfettoWriter::StepTracks {
 public:
  explicit StepTracks(PerfettoPackets& packets)
      : packets_(packets),
        steps_(packets, kStepTracks, "steps", 0),
        parts_(packets, kPartTracks, "step parts", 100'000),
        deliveries_(packets, kDeliveryTracks, "delivery", 200'000) {}

  void Plan(const StepPlan& plan) { in_flight_.PushBack(&plan); }

  // Returns the plan of the step that ended.
  const StepPlan& End(const StepFinished& finished, TimePoint now) {
    CHECK(!in_flight_.empty());
    const StepPlan& plan = *in_flight_.PopFront();
    CHECK(plan.id == finished.step);
    const TimePoint started = std::min(finished.started, now);
    const std::uint64_t track = steps_.Take(started, now);
    packets_.BeginSlice(track, started, Kind(plan), Category::kStep,
                        {{Note::kStep, static_cast<std::int64_t>(Index(plan.id))},
                         {Note::kTokens, plan.totals.tokens()},
                         {Note::kPrefillTokens, plan.totals.prefill_tokens},
                         {Note::kDecodes, plan.totals.decode_items},
                         {Note::kFreeBlocks, plan.free_blocks}});
    packets_.EndSlice(track, now);
    return plan;
  }

  void AddParts(StepId id, const StepTimes& times) {
    TimePoint time = times.started - times.parts[StepPart::kSchedule];
    const std::uint64_t track = parts_.Take(time, times.finished);
    for (std::size_t i = 0; i < kStepPartCount; ++i) {
      const auto part = static_cast<StepPart>(i);
      if (part == StepPart::kDelivery) continue;
      AddPart(track, id, part, time, time + times.parts[part]);
      time += times.parts[part];
    }
    if (times.told > times.finished) {
      AddPart(deliveries_.Take(times.finished, times.told), id, StepPart::kDelivery, times.finished,
              times.told);
    }
  }

 private:
  void AddPart(std::uint64_t track, StepId id, StepPart part, TimePoint begin, TimePoint end) {
    if (begin == end) return;
    packets_.BeginSlice(track, begin, SliceOf(part), Category::kPart,
                        {{Note::kStep, static_cast<std::int64_t>(Index(id))}});
    packets_.EndSlice(track, end);
  }

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

  PerfettoPackets& packets_;
  Lanes steps_;
  Lanes parts_;
  Lanes deliveries_;
  RingQueue<const StepPlan*> in_flight_;
};

// Draws requests as slices with their phases inside, each request on a lane of its own while it is
// in the system.
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
    drawn = Drawn{};
    drawn.track = kRequestTracks + TakeLane();
    packets_.BeginSlice(drawn.track, now, fmt::format("request {}", Index(request.id)),
                        Category::kRequest,
                        {{Note::kRequest, Index(request.id)},
                         {Note::kPromptTokens, request.prompt_tokens},
                         {Note::kMaxOutputTokens, request.max_output_tokens},
                         {Note::kTenant, request.tenant}});
    BeginPhase(request.id, drawn, Slice::kQueued, now);
    return true;
  }

  void Follow(const StepPlan& plan, TimePoint now) {
    for (const Preemption& preemption : plan.preempted) {
      const bool swapped = preemption.how == Preemption::How::kSwap;
      Enter(preemption.request, swapped ? Slice::kSwapped : Slice::kPreempted, now);
      // Steps that the request still has in flight do not delay its next phase.
      if (Drawn* drawn = drawn_requests_.Find(preemption.request)) drawn->latest_step = StepId{};
    }
    for (const WorkItem& item : plan.work) {
      Plan(item, plan.id, now);
    }
    for (const Rejection& rejection : plan.rejected) {
      Enter(rejection.request, Slice::kRejected, now);
      Leave(rejection.request, now);
    }
  }

  void Finish(const StepPlan& plan, const StepFinished& finished, TimePoint now) {
    returned_ = plan.id;
    if (waiting_phases_ > 0) {
      for (const WorkItem& item : plan.work) {
        const Drawn* drawn = drawn_requests_.Find(item.request);
        if (drawn == nullptr || !drawn->has_next || drawn->next_after != plan.id) continue;
        Enter(item.request, drawn->next, now);
      }
    }
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
    // A next phase may be planned while steps of the present phase are still in flight.
    bool has_next = false;
    Slice next{};
    StepId next_after{};   // `next` begins when this step returns
    StepId latest_step{};  // the latest one that it is part of since it was admitted; 0: none
  };

  std::uint64_t TakeLane() {
    if (!free_lanes_.empty()) {
      const std::int32_t lane = free_lanes_.top();
      free_lanes_.pop();
      return static_cast<std::uint64_t>(lane);
    }
    const auto lane = static_cast<std::uint64_t>(lanes_);
    packets_.DescribeTrack(kRequestTracks + lane, kRequestsTrack, fmt::format("lane {}", lane + 1),
                           lanes_);
    ++lanes_;
    return lane;
  }

  void BeginPhase(RequestId id, Drawn& drawn, Slice phase, TimePoint now) {
    drawn.phase = phase;
    packets_.BeginSlice(drawn.track, now, phase, Category::kRequest, {{Note::kRequest, Index(id)}});
  }

  // Begins the phase of `item` now, or when the latest step of the phase before it returns.
  void Plan(const WorkItem& item, StepId step, TimePoint now) {
    Drawn* drawn = drawn_requests_.Find(item.request);
    if (drawn == nullptr) return;
    const Slice phase = item.phase == Phase::kDecode ? Slice::kDecode : Slice::kPrefill;
    if (drawn->phase != phase && !drawn->has_next) {
      if (drawn->latest_step > returned_) {
        drawn->has_next = true;
        drawn->next = phase;
        drawn->next_after = drawn->latest_step;
        ++waiting_phases_;
      } else {
        Enter(item.request, phase, now);
      }
    }
    drawn->latest_step = step;
  }

  void Enter(RequestId id, Slice phase, TimePoint now) {
    Drawn* drawn = drawn_requests_.Find(id);
    if (drawn == nullptr) return;
    ForgetNext(*drawn);
    if (drawn->phase == phase) return;
    packets_.EndSlice(drawn->track, now);
    BeginPhase(id, *drawn, phase, now);
  }

  void ForgetNext(Drawn& drawn) {
    waiting_phases_ -= drawn.has_next ? 1 : 0;
    drawn.has_next = false;
  }

  void Close(const Drawn& drawn, TimePoint now) {
    packets_.EndSlice(drawn.track, now);  // the phase
    packets_.EndSlice(drawn.track, now);  // the request
  }

  void Leave(RequestId id, TimePoint now) {
    Drawn* drawn = drawn_requests_.Find(id);
    if (drawn == nullptr) return;
    ForgetNext(*drawn);
    Close(*drawn, now);
    free_lanes_.push(static_cast<std::int32_t>(drawn->track - kRequestTracks));
    drawn_requests_.Close(id);
  }

  PerfettoPackets& packets_;
  PerfettoOptions options_;
  std::int64_t drawn_ = 0;
  std::int32_t lanes_ = 0;
  std::int64_t waiting_phases_ = 0;  // requests with has_next
  StepId returned_{};                // the latest step that returned
  std::priority_queue<std::int32_t, std::vector<std::int32_t>, std::greater<>> free_lanes_;
  IdWindow<Drawn> drawn_requests_;
};

// Draws values over time; writes only changes.
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
    : file_(std::make_unique<MessageOutput>(path, options.compression)) {
  Begin(*file_, options);
}

PerfettoWriter::PerfettoWriter(MessageOutput& file, const PerfettoOptions& options) {
  Begin(file, options);
}

void PerfettoWriter::Begin(MessageOutput& file, const PerfettoOptions& options) {
  packets_ = std::make_unique<PerfettoPackets>(file, options.process);
  packets_->DescribeProcess(options.process_name);
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
      requests_->Finish(steps_->End(*finished, instant.now), *finished, instant.now);
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

void PerfettoWriter::AddParts(StepId id, const StepTimes& times) { steps_->AddParts(id, times); }

void PerfettoWriter::Finish() {
  requests_->CloseAll(latest_);
  if (file_ != nullptr) file_->Commit();
}

}  // namespace twin
