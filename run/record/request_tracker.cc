#include "run/record/request_tracker.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/check.h"

namespace twin {

MeasuredWindow MeasuredWindow::Trimmed(std::uint64_t requests, double head, double tail) {
  CHECK(requests >= 1 && head >= 0 && tail >= 0 && head + tail < 1);
  const auto share = [requests](double part) {
    return static_cast<std::uint64_t>(static_cast<double>(requests) * part);
  };
  MeasuredWindow window;
  window.first_request = share(head);
  window.last_request = requests - 1 - share(tail);
  return window;
}

RequestTracker::RequestTracker(const TrackerConfig& config, std::span<RunListener* const> listeners)
    : config_(config),
      first_replica_(std::max(config.only_replica, 0)),
      listeners_(listeners.begin(), listeners.end()),
      tracks_(config.only_replica >= 0 ? IdShare::kFew : IdShare::kAll),
      replicas_(1) {}

void RequestTracker::AddReplicas(std::size_t count) { replicas_.resize(count); }

void RequestTracker::OnInstant(const Instant& instant) {
  PassTo(instant.now);
  TakeEvents(instant.now, instant.events);
}

void RequestTracker::PassTo(TimePoint now) {
  if (load_since_ != TimePoint::min() && now > load_since_) {
    for (RunListener* listener : listeners_) listener->OnLoad(load_since_, now, load_);
  }
  load_since_ = now;
}

void RequestTracker::OnStreak(const StreakPart& part) {
  Replica& replica = ReplicaAt(part.replica);
  const std::int32_t blocks = BlocksOf(part.replica);
  std::int64_t context_tokens = part.first_totals.decode_context_tokens;
  for (const StreakPart::Moment& moment : part.moments) {
    PassTo(moment.now);
    StepInFlight step = replica.in_flight.PopFront();
    StepFinished finished;
    finished.started = moment.started;
    Finish(moment.now, replica.decodes, step, finished);
    // The next step lies where this one lay.
    step.planned = moment.now;
    step.recomputed_tokens = 0;
    step.decode_context_tokens = context_tokens;
    context_tokens += part.first_totals.decode_items;
    replica.in_flight.PushBack(step);
    replica.decodes.set.Launched(*step.plan);
    Use(replica, blocks - moment.free_blocks);
  }
}

TrackerConfig RequestTracker::ReplicaConfig(std::int32_t replica) const {
  TrackerConfig config = config_;
  config.kv_blocks = BlocksOf(replica);
  config.blocks_by_replica.clear();
  config.only_replica = replica;
  return config;
}

void RequestTracker::TakeOver(RequestId id, RequestTracker& from) {
  const Track& track = from.tracks_[id];
  CHECK(track.life.status == RequestStatus::kWaiting);
  tracks_.Open(id) = track;
  ++load_.waiting;
}

void RequestTracker::TakeEvents(TimePoint now, std::span<const Event> events) {
  for (const Event& event : events) {
    if (const auto* finished = std::get_if<StepFinished>(&event)) {
      FinishStep(now, *finished);
    } else if (const auto* transferred = std::get_if<TransferFinished>(&event)) {
      TakeTransferred(*transferred);
    } else if (const auto* arrived = std::get_if<RequestArrived>(&event)) {
      Arrive(now, *arrived);
    } else if (const auto* cancelled = std::get_if<RequestCancelled>(&event)) {
      Cancel(now, *cancelled);
    }
  }
}

void RequestTracker::OnPlan(TimePoint now, const StepPlan& plan) {
  Replica& replica = ReplicaAt(plan.replica);
  for (const Preemption& preemption : plan.preempted) Preempt(preemption);
  Admit(plan);
  for (const RequestId id : plan.resumed) {
    if (!tracks_.contains(id)) continue;
    RequestLife& life = tracks_[id].life;
    --CountOf(life.status);
    life.status = RequestStatus::kRunning;
    ++load_.running;
  }
  for (const Rejection& rejection : plan.rejected) {
    if (!tracks_.contains(rejection.request)) continue;
    Track& track = tracks_[rejection.request];
    track.life.reject_reason = rejection.reason;
    track.life.replica = plan.replica;
    Leave(now, track, RequestStatus::kRejected);
  }
  // A plan of decodes alone schedules no request for the first time and recomputes nothing.
  const std::int64_t recomputed = plan.totals.prefill_items > 0 ? Schedule(now, plan) : 0;
  replica.in_flight.PushBack({&plan, now, recomputed, plan.totals.decode_context_tokens});
  replica.decodes.set.Launched(plan);
  Use(replica, BlocksOf(plan.replica) - plan.free_blocks);
  for (RunListener* listener : listeners_) listener->OnPlanned(now, plan);
}

void RequestTracker::OnTransfer(TimePoint /*now*/, const KvTransfer& transfer) {
  Track* const track = tracks_.Find(transfer.request);
  if (track != nullptr && track->in_decode_set) LeaveDecodes(*track);
}

void RequestTracker::Use(Replica& replica, std::int32_t blocks) {
  load_.used_blocks += blocks - replica.used_blocks;
  replica.used_blocks = blocks;
}

void RequestTracker::Arrive(TimePoint now, const RequestArrived& arrived) {
  const Request& request = arrived.request;
  Track& track = tracks_.Open(request.id);
  track = Track{};
  RequestLife& life = track.life;
  life.id = request.id;
  life.arrival = request.arrival;
  life.reached = now;
  life.response_delay = arrived.response_delay;
  life.client_wait = arrived.client_wait;
  life.streamed = config_.delivery == Delivery::kPerStep;
  life.prompt_tokens = request.prompt_tokens;
  life.priority = request.priority;
  life.tenant = request.tenant;
  life.session = request.session;
  life.max_output_tokens = request.max_output_tokens;
  const MeasuredWindow& window = config_.window;
  life.measured = Index(request.id) >= window.first_request &&
                  Index(request.id) <= window.last_request &&
                  request.arrival >= window.first_arrival && request.arrival <= window.last_arrival;
  ++arrived_;
  ++load_.waiting;
  for (RunListener* listener : listeners_) listener->OnArrived(now, life);
}

void RequestTracker::Cancel(TimePoint now, const RequestCancelled& cancelled) {
  Track* const track = tracks_.Find(cancelled.request);
  if (track == nullptr) return;
  RequestLife& life = track->life;
  if (track->in_decode_set) LeaveDecodes(*track);
  // A request that has ended only waits for its batch: the engine does not hear of the
  // cancellation.
  if (life.status == RequestStatus::kCompleted) return;
  const bool answered = cancelled.answered && life.output_tokens > 0;
  // Tokens of a batch become visible with the end of a request at the latest.
  if (answered && !life.has_tokens()) life.first_token = life.last_token = now;
  Leave(now, *track, answered ? RequestStatus::kCompleted : RequestStatus::kCancelled);
}

// The request waits at the replica that it has reached, and holds nothing at the other one any
// more.
void RequestTracker::TakeTransferred(const TransferFinished& finished) {
  Track* const track = tracks_.Find(finished.request);
  if (track == nullptr || track->life.status != RequestStatus::kRunning) return;
  RequestLife& life = track->life;
  LeaveEngine(*track);
  ReplicaAt(finished.to).decodes.set.ReceivesKv();
  life.status = RequestStatus::kWaiting;
  ++load_.waiting;
  track->transferred = life.prompt_tokens + life.output_tokens - 1;
}

void RequestTracker::FinishStep(TimePoint now, const StepFinished& finished) {
  Replica& replica = ReplicaAt(finished.replica);
  RingQueue<StepInFlight>& in_flight = replica.in_flight;
  CHECK(!in_flight.empty() && in_flight.front().plan->id == finished.step);
  Finish(now, replica.decodes, in_flight.PopFront(), finished);
}

void RequestTracker::Finish(TimePoint now, Decodes& decodes, const StepInFlight& step,
                            const StepFinished& finished) {
  TakeTokens(now, decodes, *step.plan, finished);
  const EndedStep ended{*step.plan,
                        step.planned,
                        finished.started,
                        now,
                        step.recomputed_tokens,
                        finished.outcomes,
                        step.decode_context_tokens};
  for (RunListener* listener : listeners_) listener->OnStepEnded(ended);
}

void RequestTracker::TakeTokens(TimePoint now, Decodes& decodes, const StepPlan& plan,
                                const StepFinished& finished) {
  if (decodes.falling_gaps.size() >= Decodes::kFallingGapsMax) SettleAll(decodes);
  switch (decodes.set.Returned(/*item_by_item=*/!OnlyEnds(finished.outcomes))) {
    case DecodeSet::Tokens::kAll:
      TakeFromSet(now, decodes);
      break;
    case DecodeSet::Tokens::kNone:
      break;
    case DecodeSet::Tokens::kOther:
      return TakeItemByItem(now, decodes, plan, finished);
  }
  if (decodes.set.newcomers() > 0) TakeNewcomers(now, plan, decodes);
  for (const ItemOutcome& outcome : finished.outcomes) {
    if (Track* const track = tracks_.Find(outcome.request)) End(now, *track, outcome.finish);
  }
}

void RequestTracker::TakeItemByItem(TimePoint now, Decodes& decodes, const StepPlan& plan,
                                    const StepFinished& finished) {
  ClearDecodes(decodes);
  const ItemOutcome* outcome = finished.outcomes.data();
  const ItemOutcome* const end = outcome + finished.outcomes.size();
  Gaps gaps;
  for (const WorkItem& item : plan.work) {
    if (outcome != end && outcome->request == item.request) [[unlikely]] {
      TakeException(now, *outcome++, gaps);
    } else if (item.emits) {
      if (Track* const track = tracks_.Find(item.request)) Emit(now, track->life, gaps);
    }
  }
  CHECK(outcome == end);
  ReportGaps(now, gaps);
  if (!decodes.set.Opens(plan)) return;
  decodes.latest = now;
  for (const WorkItem& item : plan.work) {
    Track* const track = item.emits ? tracks_.Find(item.request) : nullptr;
    if (track != nullptr && track->life.status != RequestStatus::kCompleted) {
      Join(*track, decodes);
    }
  }
}

void RequestTracker::TakeNewcomers(TimePoint now, const StepPlan& plan, Decodes& decodes) {
  if (decodes.set.members().empty()) decodes.latest = now;
  Gaps gaps;
  for (const WorkItem& item : plan.work) {
    Track* const track = item.emits ? tracks_.Find(item.request) : nullptr;
    if (track == nullptr || track->in_decode_set) continue;
    if (track->life.status == RequestStatus::kCompleted) continue;
    Emit(now, track->life, gaps);
    Join(*track, decodes);
  }
  ReportGaps(now, gaps);
}

void RequestTracker::TakeFromSet(TimePoint now, Decodes& decodes) {
  const Duration gap = now - std::exchange(decodes.latest, now);
  if (config_.delivery == Delivery::kBatchEnd) return;
  while (!decodes.falling_gaps.empty() && decodes.falling_gaps.back().second <= gap) {
    decodes.falling_gaps.pop_back();
  }
  decodes.falling_gaps.emplace_back(decodes.set.steps(), gap);
  ReportGaps(now, {.gap = gap, .count = decodes.measured});
  if (decodes.apart.empty()) [[likely]]
    return;
  Gaps gaps;
  for (const RequestId id : decodes.apart) {
    Track& track = tracks_[id];
    Emit(now, track.life, gaps);
    track.settled = decodes.set.steps();
    decodes.measured += track.life.measured ? 1 : 0;
  }
  ReportGaps(now, gaps);
  decodes.apart.clear();
}

void RequestTracker::Join(Track& track, Decodes& decodes) {
  const RequestLife& life = track.life;
  track.in_decode_set = true;
  track.settled = decodes.set.steps();
  decodes.set.Join(life.id);
  if (config_.delivery == Delivery::kPerStep && life.last_token != decodes.latest) {
    decodes.apart.push_back(life.id);
  } else {
    decodes.measured += life.measured ? 1 : 0;
  }
}

void RequestTracker::Settle(Track& track, const Decodes& decodes) const {
  const std::int64_t before = std::exchange(track.settled, decodes.set.steps());
  if (before == track.settled) return;
  RequestLife& life = track.life;
  life.output_tokens += static_cast<std::int32_t>(track.settled - before);
  if (config_.delivery == Delivery::kBatchEnd) return;
  life.last_token = decodes.latest;
  const auto longest = std::ranges::upper_bound(decodes.falling_gaps, before, {},
                                                [](const auto& step) { return step.first; });
  life.longest_gap = std::max(life.longest_gap, longest->second);
}

void RequestTracker::SettleAll(Decodes& decodes) {
  for (const RequestId id : decodes.set.members()) Settle(tracks_[id], decodes);
  decodes.falling_gaps.clear();
}

void RequestTracker::LeaveDecodes(Track& track) {
  Decodes& decodes = ReplicaAt(track.life.replica).decodes;
  Settle(track, decodes);
  track.in_decode_set = false;
  decodes.set.Leave(track.life.id);
  if (std::erase(decodes.apart, track.life.id) == 0) {
    decodes.measured -= track.life.measured ? 1 : 0;
  }
}

void RequestTracker::ClearDecodes(Decodes& decodes) {
  SettleAll(decodes);
  for (const RequestId id : decodes.set.members()) tracks_[id].in_decode_set = false;
  decodes.set.Clear();
  decodes.measured = 0;
  decodes.apart.clear();
}

void RequestTracker::TakeException(TimePoint now, const ItemOutcome& outcome, Gaps& gaps) {
  if (!tracks_.contains(outcome.request)) return;
  Track& track = tracks_[outcome.request];
  if (track.life.status == RequestStatus::kCompleted) return;
  for (std::int32_t i = 0; i < outcome.emitted_tokens; ++i) Emit(now, track.life, gaps);
  if (outcome.finish != FinishReason::kNone) End(now, track, outcome.finish);
}

inline void RequestTracker::Emit(TimePoint now, RequestLife& life, Gaps& gaps) {
  // The item was issued before the request's end was known; its token is dropped.
  if (life.status == RequestStatus::kCompleted) [[unlikely]]
    return;
  ++life.output_tokens;
  ++gaps.tokens;
  if (config_.delivery == Delivery::kBatchEnd) return;
  if (life.last_token != gaps.from) [[unlikely]] {
    ReportGaps(now, gaps);
    gaps.from = life.last_token;
    gaps.gap = now - life.last_token;
    gaps.count = 0;
  }
  if (gaps.from == kTimeNever) [[unlikely]] {
    life.first_token = now;
  } else {
    if (gaps.gap > life.longest_gap) life.longest_gap = gaps.gap;
    gaps.count += life.measured ? 1 : 0;
  }
  life.last_token = now;
}

void RequestTracker::ReportGaps(TimePoint now, const Gaps& gaps) {
  if (gaps.count == 0) return;
  for (RunListener* listener : listeners_) listener->OnGaps(now, gaps.gap, gaps.count);
}

void RequestTracker::End(TimePoint now, Track& track, FinishReason reason) {
  RequestLife& life = track.life;
  if (life.status == RequestStatus::kCompleted) return;
  if (track.in_decode_set) LeaveDecodes(track);
  life.output_cut = reason == FinishReason::kLength && life.output_tokens < life.max_output_tokens;
  if (track.batch == 0) {
    Leave(now, track, RequestStatus::kCompleted);
    return;
  }
  LeaveEngine(track);
  life.status = RequestStatus::kCompleted;
  LeaveBatch(now, track);
}

void RequestTracker::Leave(TimePoint now, Track& track, RequestStatus status) {
  RequestLife& life = track.life;
  LeaveEngine(track);
  life.status = status;
  life.ended = now;
  for (RunListener* listener : listeners_) listener->OnEnded(life);
  const RequestId id = life.id;
  if (track.batch != 0) LeaveBatch(now, track);
  tracks_.Close(id);
}

void RequestTracker::LeaveEngine(Track& track) {
  const RequestLife& life = track.life;
  if (track.in_decode_set) LeaveDecodes(track);
  --CountOf(life.status);
  Replica& replica = ReplicaAt(life.replica);
  replica.decodes.set.Ended(life.id);
  if (life.status != RequestStatus::kWaiting) --replica.admitted;
  if (replica.admitted == 0) Use(replica, 0);
}

std::int32_t& RequestTracker::CountOf(RequestStatus status) {
  switch (status) {
    case RequestStatus::kWaiting:
      return load_.waiting;
    case RequestStatus::kRunning:
      return load_.running;
    default:
      CHECK(status == RequestStatus::kSwapped);
      return load_.swapped;
  }
}

void RequestTracker::Preempt(const Preemption& preemption) {
  if (!tracks_.contains(preemption.request)) return;
  Track& track = tracks_[preemption.request];
  RequestLife& life = track.life;
  if (track.in_decode_set) Settle(track, ReplicaAt(life.replica).decodes);
  --CountOf(life.status);
  ++life.preemptions;
  if (preemption.how == Preemption::How::kSwap) {
    life.status = RequestStatus::kSwapped;
    ++load_.swapped;
  } else {
    life.status = RequestStatus::kWaiting;
    ++load_.waiting;
    --ReplicaAt(life.replica).admitted;
    track.ever_computed = std::max(track.ever_computed, ComputedUntil(track));
  }
}

std::int32_t RequestTracker::ComputedUntil(const Track& track) const {
  const RingQueue<StepInFlight>& in_flight = replicas_[Place(track.life.replica)].in_flight;
  for (std::size_t i = in_flight.size(); i > 0; --i) {
    for (const WorkItem& item : in_flight[i - 1].plan->work) {
      if (item.request == track.life.id) return item.start + item.tokens - item.drafts;
    }
  }
  // At rest, all known tokens but the latest one are computed once the prefill has emitted.
  const bool decodes = track.life.output_tokens > track.tokens_at_admission;
  return decodes ? track.life.prompt_tokens + track.life.output_tokens - 1 : track.prefilled;
}

void RequestTracker::Admit(const StepPlan& plan) {
  Replica& replica = ReplicaAt(plan.replica);
  for (const RequestId id : plan.admitted) {
    if (!tracks_.contains(id)) continue;
    Track& track = tracks_[id];
    --CountOf(track.life.status);
    track.life.status = RequestStatus::kRunning;
    if (track.in_decode_set && track.life.replica != plan.replica) LeaveDecodes(track);
    track.life.replica = plan.replica;
    ++load_.running;
    ++replica.admitted;
    track.tokens_at_admission = track.life.output_tokens;
    track.prefilled = std::exchange(track.transferred, 0);
    if (config_.delivery == Delivery::kBatchEnd && track.batch == 0) JoinBatch(plan.id, track);
  }
  for (const PrefixHit& hit : plan.hits) {
    if (!tracks_.contains(hit.request)) continue;
    RequestLife& life = tracks_[hit.request].life;
    if (life.scheduled == kTimeNever) life.cached_tokens = hit.tokens;
  }
}

std::int64_t RequestTracker::Schedule(TimePoint now, const StepPlan& plan) {
  std::int64_t recomputed = 0;
  for (const WorkItem& item : plan.work) {
    if (item.phase != Phase::kPrefill || !tracks_.contains(item.request)) continue;
    Track& track = tracks_[item.request];
    const std::int32_t end = item.start + item.tokens;
    if (track.life.scheduled == kTimeNever) track.life.scheduled = now;
    track.prefilled = end;
    recomputed += std::max(0, std::min(end, track.ever_computed) - item.start);
  }
  return recomputed;
}

void RequestTracker::JoinBatch(StepId plan, Track& track) {
  track.batch = Index(plan);
  Replica& replica = ReplicaAt(track.life.replica);
  std::vector<Batch>& batches = replica.batches;
  if (batches.empty() || batches.back().plan != track.batch) {
    batches.push_back({track.batch, 0, std::move(replica.spare_members)});
    batches.back().members.clear();
  }
  ++batches.back().running;
  batches.back().members.push_back(track.life.id);
}

void RequestTracker::LeaveBatch(TimePoint now, const Track& track) {
  Replica& replica = ReplicaAt(track.life.replica);
  std::vector<Batch>& batches = replica.batches;
  const auto batch = std::find_if(batches.begin(), batches.end(),
                                  [&](const Batch& b) { return b.plan == track.batch; });
  CHECK(batch != batches.end());
  if (--batch->running > 0) return;
  replica.spare_members = std::move(batch->members);
  batches.erase(batch);
  Deliver(now, replica.spare_members);
}

void RequestTracker::Deliver(TimePoint now, std::span<const RequestId> members) {
  for (const RequestId id : members) {
    if (!tracks_.contains(id)) continue;
    RequestLife& life = tracks_[id].life;
    if (life.status != RequestStatus::kCompleted) continue;
    life.ended = now;
    if (life.output_tokens > 0) life.first_token = life.last_token = now;
    for (RunListener* listener : listeners_) listener->OnEnded(life);
    tracks_.Close(id);
  }
}

}  // namespace twin
