#include "sim/world/sim_world.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "core/check.h"
#include "core/input_error.h"

namespace twin::sim {
namespace {

// Releases and rejections involve the host alone.
bool UsesDevice(const StepPlan& plan) {
  const auto swapped = [](const Preemption& p) { return p.how == Preemption::How::kSwap; };
  return !plan.work.empty() || !plan.resumed.empty() ||
         std::any_of(plan.preempted.begin(), plan.preempted.end(), swapped);
}

// So many blocks that get full in one step take no further memory.
constexpr std::size_t kFillingReserved = 16;

IdShare IdsOf(const SimWorldOptions& options) {
  return options.only_replica >= 0 ? IdShare::kFew : IdShare::kAll;
}

// The source of worlds whose requests come from another world. All of them share one: it has no
// state.
class NoArrivals final : public ArrivalSource {
 public:
  const TracedRequest* Peek() override { return nullptr; }
  void Take() override { CHECK(false); }
  void OnDone(RequestId /*id*/, TimePoint /*now*/, std::int32_t /*answer_tokens*/) override {}
  [[nodiscard]] bool reacts() const override { return false; }
};

}  // namespace

SimWorld::SimWorld(ArrivalSource& source, const StepCost& cost, const SimWorldOptions& options)
    : source_(source),
      clients_(options.boundary || options.client_timeout || options.cancellable || options.pace
                   ? std::make_unique<Clients>(source, options.boundary.value_or(BoundaryConfig{}),
                                               options.client_timeout, options.seed)
                   : nullptr),
      options_(options),
      first_replica_(std::max(options.only_replica, 0)),
      hidden_requests_(IdsOf(options)),
      keeps_details_(options.named_block_size > 0 || options.link),
      details_(IdsOf(options)),
      tokens_at_(IdsOf(options)),
      replicas_(static_cast<std::size_t>(options.replicas)) {
  SetUpReplicas(cost);
  if (options_.link) {
    for (Replica& replica : replicas_) replica.decodes.set.ReceivesKv();
    links_.emplace(*options_.link, options_.kv_token_bytes, options_.kv_layers, options_.replicas);
  }
  if (options_.acceptance) {
    acceptance_.emplace(*options_.acceptance, options_.drafts_offered, options_.seed);
  }
}

void SimWorld::SetUpReplicas(const StepCost& cost) {
  if (options_.groups.empty()) {
    options_.groups.push_back(
        {options_.replicas, &cost, options_.forgets_stale_tokens, options_.overlaps_own_steps});
  }
  std::size_t next = 0;
  for (const SimReplicas& group : options_.groups) {
    const auto stages = static_cast<std::size_t>(group.cost->stages());
    stage_times_.resize(std::max(stage_times_.size(), stages));
    keeps_token_times_ |= stages > 1 && group.overlaps_own_steps;
    for (std::int32_t i = 0; i < group.count; ++i) {
      Replica& replica = replicas_.at(next++);
      replica.cost = group.cost;
      replica.timer = group.cost->Timer();
      replica.forgets_stale_tokens = group.forgets_stale_tokens;
      replica.overlaps_own_steps = group.overlaps_own_steps;
      replica.stage_free.assign(stages, kTimeZero);
      replica.devices.resize(group.cost->remembers() ? stages : 0);
      replica.decodes.filling.resize(static_cast<std::size_t>(options_.named_block_size));
      for (std::vector<RequestId>& tick : replica.decodes.filling) tick.reserve(kFillingReserved);
    }
  }
  CHECK(next == replicas_.size());
}

Instant SimWorld::Advance(TimePoint wake_at) {
  events_.clear();
  prompt_keys_used_ = 0;
  if (clients_ != nullptr) return AdvanceWithClients(wake_at);
  const TimePoint result_time = NextResult();
  const TimePoint next = std::min(result_time, std::max(source_.next_time(), now_));
  if (wake_at < next) return WakeUpAt(wake_at);
  if (next == kTimeNever) return {};
  now_ = next;
  if (result_time <= now_) ReturnResults();
  TakeArrivals();
  return {now_, events_};
}

Instant SimWorld::WakeUpAt(TimePoint wake_at) {
  now_ = std::max(now_, wake_at);
  events_.emplace_back(WakeUp{});
  return {now_, events_};
}

void SimWorld::Depart(RequestId id, std::int32_t answer_tokens) {
  HiddenRequest& hidden = hidden_requests_[id];
  if (hidden.in_decode_set) LeaveDecodes(id, hidden);
  ReplicaAt(hidden.replica).decodes.set.Ended(id);
  CloseHidden(id);
  if (clients_ != nullptr) {
    clients_->OnLeft(id, now_, answer_tokens);
  } else {
    source_.OnDone(id, now_, answer_tokens);
  }
}

// Moves the request to a replica. It may have decoded at another one.
void SimWorld::Admit(RequestId id, std::int32_t replica) {
  HiddenRequest* const hidden = hidden_requests_.Find(id);
  if (hidden == nullptr || hidden->replica == replica) return;
  if (hidden->in_decode_set) LeaveDecodes(id, *hidden);
  hidden->replica = replica;
}

void SimWorld::CloseHidden(RequestId id) {
  hidden_requests_.Close(id);
  if (keeps_details_) details_.Close(id);
  if (keeps_token_times_) tokens_at_.Close(id);
}

void SimWorld::TakeArrivals() {
  for (; source_.next_time() <= now_; source_.Take()) Announce(*source_.Peek(), Duration{0});
}

void SimWorld::Announce(const TracedRequest& traced, Duration response_delay, bool prefix_keys) {
  const RequestId id{next_id_++};
  HiddenRequest& hidden = hidden_requests_.Open(id);
  const std::int32_t room = options_.max_model_length > 0
                                ? std::max(1, options_.max_model_length - traced.prompt_tokens)
                                : traced.max_output_tokens;
  const std::int32_t limit = std::min(traced.max_output_tokens, room);
  hidden.answer_tokens = std::min(traced.output_tokens, limit);
  hidden.remaining_tokens = hidden.answer_tokens;
  hidden.ends_at_limit = hidden.remaining_tokens == limit;
  hidden.block_room = std::numeric_limits<std::int32_t>::max();
  hidden.replica = first_replica_;
  hidden.in_decode_set = false;
  Request request{.id = id,
                  .arrival = std::max(traced.arrival, TimePoint{}),
                  .prompt_tokens = traced.prompt_tokens,
                  .max_output_tokens = traced.max_output_tokens,
                  .priority = traced.priority,
                  .tenant = traced.tenant,
                  .session = traced.session,
                  .ignore_eos = traced.ignore_eos,
                  .predicted_output_tokens = traced.predicted_output_tokens};
  if (keeps_details_) details_.Open(id);
  if (keeps_token_times_) tokens_at_.Open(id) = kTimeZero;
  if (options_.named_block_size > 0) {
    StoreContent(traced, id, hidden);
    if (prefix_keys) request.prefix_keys = ComputePromptKeys(request);
  }
  events_.emplace_back(RequestArrived{request, response_delay, traced.client_wait});
}

void SimWorld::StoreContent(const TracedRequest& traced, RequestId id, HiddenRequest& hidden) {
  const std::int32_t size = options_.named_block_size;
  hidden.open_block = traced.prompt_tokens / size;
  hidden.block_room = size - traced.prompt_tokens % size;
  HiddenDetails& details = details_[id];
  details.chunks.assign(traced.prefix_chunks.begin(), traced.prefix_chunks.end());
  details.content = NamedContent::Of(details.chunks, traced.prefix_chunk_tokens,
                                     traced.prompt_tokens, traced.output_tokens);
  hidden.named_tokens = static_cast<std::int32_t>(
      std::min<std::int64_t>(details.content.tokens, std::numeric_limits<std::int32_t>::max()));
}

std::span<const BlockKey> SimWorld::ComputePromptKeys(const Request& request) {
  const std::int32_t size = options_.named_block_size;
  const std::int32_t blocks = request.prompt_tokens / size;
  const NamedContent& content = details_[request.id].content;
  if (prompt_keys_used_ == prompt_keys_.size()) prompt_keys_.emplace_back();
  std::vector<BlockKey>& keys = prompt_keys_[prompt_keys_used_++];
  keys.resize(static_cast<std::size_t>(blocks));
  for (std::int32_t i = 0; i < blocks; ++i) {
    keys[static_cast<std::size_t>(i)] = KeyOfBlock(content, request.id, i, size);
  }
  return keys;
}

TimePoint SimWorld::After(TimePoint time, Duration duration) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(time.time_since_epoch().count(), duration.count(), &sum)) {
    throw InputError(
        InputError::Kind::kData, "simulated time",
        "exceeds 292 years; allowed: fewer requests, or a cost model with shorter steps");
  }
  return TimePoint{Duration{sum}};
}

void SimWorld::Launch(const StepPlan& plan) {
  Replica& replica = ReplicaAt(plan.replica);
  for (const Rejection& rejection : plan.rejected) Depart(rejection.request, 0);
  for (const RequestId id : plan.admitted) Admit(id, plan.replica);
  replica.decodes.set.Launched(plan);
  if (replica.forgets_stale_tokens) replica.stale.Launched(plan);
  const TimePoint started = Run(plan, replica, &plan);
  if (!links_ || !links_->layer_wise()) return;
  for (const RequestId id : plan.admitted) details_[id].prefill_began = started;
}

TimePoint SimWorld::Run(const StepPlan& plan, Replica& replica, const StepPlan* launched) {
  const StepCost& cost = *replica.cost;
  replica.host_free = After(std::max(replica.host_free, now_), cost.HostTime(plan));
  TimePoint ready = replica.host_free;
  if (keeps_token_times_) ready = std::max(ready, InputTokensAt(plan));
  TimePoint started = ready;
  stage_spans_.clear();
  if (UsesDevice(plan)) {
    const bool remembers = !replica.devices.empty();
    const std::span stage_times = std::span(stage_times_).first(replica.stage_free.size());
    if (!remembers) replica.timer->DeviceTimes(plan, stage_times);
    for (std::size_t stage = 0; stage < stage_times.size(); ++stage) {
      const TimePoint begin = std::max(ready, replica.stage_free[stage]);
      if (stage == 0) started = begin;
      if (remembers) {
        stage_times[stage] =
            replica.timer->StageTime(plan, static_cast<int>(stage), begin, replica.devices[stage]);
      }
      ready = After(begin, stage_times[stage]);
      if (remembers) cost.Advance(plan, begin, ready, replica.devices[stage]);
      replica.stage_free[stage] = ready;
      stage_spans_.push_back({begin, ready});
    }
  }
  if (keeps_token_times_) SetTokenTimes(plan, ready);
  // Results are delivered in the order of launch, also for steps that never reach a device.
  replica.last_delivery = std::max(After(ready, cost.DeliveryTime(plan)), replica.last_delivery);
  steps_.Push(replica.last_delivery, {launched, started}, plan.replica);
  return started;
}

TimePoint SimWorld::InputTokensAt(const StepPlan& plan) {
  TimePoint latest = kTimeZero;
  for (const WorkItem& item : plan.work) {
    // A request that has ended may still be in a step that was planned ahead.
    const TimePoint* const at = tokens_at_.Find(item.request);
    if (item.phase == Phase::kDecode && at != nullptr) latest = std::max(latest, *at);
  }
  return latest;
}

void SimWorld::SetTokenTimes(const StepPlan& plan, TimePoint end) {
  for (const WorkItem& item : plan.work) {
    TimePoint* const at = tokens_at_.Find(item.request);
    if (item.emits && at != nullptr) *at = end;
  }
}

void SimWorld::Transfer(const KvTransfer& transfer) {
  CHECK(links_.has_value());
  HiddenRequest* const hidden = hidden_requests_.Find(transfer.request);
  if (hidden != nullptr && hidden->in_decode_set) LeaveDecodes(transfer.request, *hidden);
  const KvLinks::Span span = links_->Send(now_, transfer, details_[transfer.request].prefill_began);
  transfers_.Push(span.end, {transfer.request, transfer.from, transfer.to, span.begin});
}

void SimWorld::ReturnResults() {
  while (transfers_.next_time() <= now_) events_.emplace_back(transfers_.Pop());
  if (steps_.next_time() <= now_) ReturnSteps();
}

void SimWorld::ReturnSteps() {
  outcomes_.clear();
  filled_.clear();
  returned_.clear();
  do {
    const RunningStep step = steps_.Pop();
    EmitTokens(*step.plan);
    Replica& replica = ReplicaAt(step.plan->replica);
    if (replica.forgets_stale_tokens) replica.stale.Returned();
    returned_.push_back({step, outcomes_.size(), filled_.size()});
  } while (steps_.next_time() <= now_);
  // Spans are taken only after the last addition, which may move the vectors.
  std::size_t outcome = 0;
  std::size_t filled = 0;
  for (const ReturnedStep& returned : returned_) {
    events_.emplace_back(
        StepFinished{returned.step.plan->id, returned.step.started,
                     std::span(outcomes_).subspan(outcome, returned.outcomes_end - outcome),
                     std::span(filled_).subspan(filled, returned.filled_end - filled),
                     returned.step.plan->replica});
    outcome = returned.outcomes_end;
    filled = returned.filled_end;
  }
}

void SimWorld::EmitTokens(const StepPlan& plan) {
  Replica& replica = ReplicaAt(plan.replica);
  const bool item_by_item = acceptance_ || !replica.stale.empty();
  switch (replica.decodes.set.Returned(item_by_item)) {
    case DecodeSet::Tokens::kAll:
      return EmitToMembers(plan, replica, /*to_all=*/true);
    case DecodeSet::Tokens::kNone:
      return EmitToMembers(plan, replica, /*to_all=*/false);
    case DecodeSet::Tokens::kOther:
      return EmitItemByItem(plan, replica);
  }
}

void SimWorld::EmitItemByItem(const StepPlan& plan, Replica& replica) {
  ClearDecodes(replica.decodes);
  for (const WorkItem& item : plan.work) {
    if (!item.emits) continue;
    if (replica.stale.Takes(item.request)) [[unlikely]] {
      outcomes_.push_back({item.request, 0, FinishReason::kNone});
      continue;
    }
    HiddenRequest* const hidden = hidden_requests_.Find(item.request);
    // The step was launched before the end of the request was known: its token is dropped.
    if (hidden == nullptr) continue;
    if (acceptance_) [[unlikely]] {
      EmitVerified(item, *hidden);
    } else {
      EmitToken(item.request, *hidden);
    }
  }
  if (acceptance_ || !replica.decodes.set.Opens(plan)) return;
  for (const WorkItem& item : plan.work) {
    HiddenRequest* const hidden = item.emits ? hidden_requests_.Find(item.request) : nullptr;
    if (hidden != nullptr) Join(item.request, *hidden, plan.replica);
  }
}

void SimWorld::EmitToken(RequestId id, HiddenRequest& hidden) {
  --hidden.remaining_tokens;
  --hidden.block_room;
  if (hidden.remaining_tokens <= 0 || hidden.block_room == 0) [[unlikely]] {
    CompleteBlockAndRequest(id, hidden);
  }
}

void SimWorld::EmitVerified(const WorkItem& item, HiddenRequest& hidden) {
  ItemOutcome outcome{.request = item.request};
  const std::int32_t place = -hidden.remaining_tokens;  // from the end of the output
  if (item.drafts > 0 && item.phase == Phase::kDecode) {
    outcome.accepted_drafts = acceptance_->Accepted(item.request, place, item.drafts);
  }
  outcome.emitted_tokens = std::min(1 + outcome.accepted_drafts, hidden.remaining_tokens);
  hidden.remaining_tokens -= outcome.emitted_tokens;
  hidden.block_room -= outcome.emitted_tokens;
  for (; hidden.block_room <= 0; hidden.block_room += options_.named_block_size) {
    FillBlock(item.request, hidden);
  }
  if (hidden.remaining_tokens > 0) {
    outcome.new_drafts = acceptance_->Proposed(item.request, -hidden.remaining_tokens);
    outcomes_.push_back(outcome);
    return;
  }
  outcome.finish = hidden.ends_at_limit ? FinishReason::kLength : FinishReason::kStop;
  outcomes_.push_back(outcome);
  Depart(item.request, hidden.answer_tokens);
}

void SimWorld::CompleteBlockAndRequest(RequestId id, HiddenRequest& hidden) {
  if (hidden.block_room == 0) {
    FillBlock(id, hidden);
    hidden.block_room = options_.named_block_size;
  }
  if (hidden.remaining_tokens > 0) return;
  outcomes_.push_back({id, 1, hidden.ends_at_limit ? FinishReason::kLength : FinishReason::kStop});
  Depart(id, hidden.answer_tokens);
}

void SimWorld::FillBlock(RequestId id, HiddenRequest& hidden) {
  const std::int32_t size = options_.named_block_size;
  // Content after the named tokens is the request's own, whatever the chunks say.
  const bool named = (std::int64_t{hidden.open_block} + 1) * size <= hidden.named_tokens;
  const NamedContent content = named ? details_[id].content : NamedContent{};
  filled_.push_back({id, KeyOfBlock(content, id, hidden.open_block, size)});
  ++hidden.open_block;
}

// Clients that do more than send.

void SimWorld::Cancel(const RequestCancelled& cancelled, TimePoint time) {
  CHECK(clients_ != nullptr && time > now_ && Index(cancelled.request) < next_id_);
  clients_->Leave(cancelled, time);
}

Instant SimWorld::AdvanceWithClients(TimePoint wake_at) {
  // Events among clients alone make no instant for the engine.
  while (events_.empty()) {
    const TimePoint next = std::min(NextResult(), clients_->next_time());
    if (options_.pace != nullptr) {
      const Pace::Turn turn = options_.pace->Await(std::min(next, wake_at));
      if (turn == Pace::Turn::kEnd) return {};
      if (turn == Pace::Turn::kLookAgain) continue;
    }
    if (wake_at < next) return WakeUpAt(wake_at);
    if (next == kTimeNever) return {};
    now_ = std::max(now_, next);
    if (NextResult() <= now_) ReturnResults();
    TakeFromClients();
  }
  return {now_, events_};
}

void SimWorld::TakeFromClients() {
  if (clients_->next_time() > now_) return;
  clients_->AdvanceTo(now_);
  while (const std::optional<RequestCancelled> left = clients_->TakeLeft(now_)) {
    HiddenRequest* const hidden = hidden_requests_.Find(left->request);
    if (hidden == nullptr) continue;
    if (hidden->in_decode_set) LeaveDecodes(left->request, *hidden);
    events_.emplace_back(*left);
    Depart(left->request, left->answered ? hidden->answer_tokens - hidden->remaining_tokens : 0);
  }
  // Clients react without delay to requests that have just left.
  clients_->AdvanceTo(now_);
  while (const auto reached = clients_->TakeReached(now_)) {
    Announce(reached->request, reached->response_delay);
  }
}

// Ahead of the clock: replicas advance one after the other, or several at once, each in a world of
// its own (docs/decisions/0016-replicas-one-after-the-other.md).

std::unique_ptr<SimWorld> SimWorld::WorldOf(std::int32_t replica) const {
  static NoArrivals no_arrivals;
  CHECK(replicas_are_separate() && options_.only_replica < 0);
  const Replica& model = replicas_.at(static_cast<std::size_t>(replica));
  SimWorldOptions options = options_;
  options.replicas = 1;
  options.only_replica = replica;
  options.groups.assign(1, {1, model.cost, model.forgets_stale_tokens, model.overlaps_own_steps});
  return std::make_unique<SimWorld>(no_arrivals, *model.cost, options);
}

std::span<const Event> SimWorld::ArrivalsBefore(TimePoint until, bool prefix_keys) {
  CHECK(replicas_are_separate() && steps_.empty());
  events_.clear();
  prompt_keys_used_ = 0;
  for (; source_.next_time() < until; source_.Take()) {
    Announce(*source_.Peek(), Duration{0}, prefix_keys);
  }
  arrivals_.swap(events_);
  return arrivals_;
}

void SimWorld::TakeOver(RequestId id, SimWorld& from) {
  HiddenRequest& hidden = hidden_requests_.Open(id) = from.hidden_requests_[id];
  hidden.replica = first_replica_;
  if (keeps_token_times_) tokens_at_.Open(id) = from.tokens_at_[id];
  // HiddenDetails::content borrows from `chunks`, which moves along.
  if (keeps_details_) std::swap(details_.Open(id), from.details_[id]);
}

Instant SimWorld::AdvanceTo(TimePoint now, std::span<const Event> arrivals) {
  now_ = now;
  events_.clear();
  if (steps_.next_time() <= now) ReturnSteps();
  prompt_keys_used_ = 0;
  for (const Event& event : arrivals) {
    Request& request = std::get<RequestArrived>(events_.emplace_back(event)).request;
    if (options_.named_block_size > 0) request.prefix_keys = ComputePromptKeys(request);
  }
  if (events_.empty()) events_.emplace_back(WakeUp{});
  return {now_, events_};
}

}  // namespace twin::sim
