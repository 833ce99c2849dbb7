#include "sched/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "core/check.h"
#include "core/input_error.h"
#include "sched/invariant.h"
#include "sched/kv_editor.h"

namespace twin {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

bool HoldsMemory(const Sequence& s) {
  return s.blocks.capacity_tokens > 0 || s.blocks.reserved_blocks > 0 || !s.blocks.host.empty();
}

// The smaller one of the limits of the model and of the policy.
std::int32_t ServableTokens(const EngineConfig& config, const PolicyTraits& traits) {
  if (!config.checks_rejections) return StepBuilder::kTokensUnchecked;
  std::int32_t tokens = std::numeric_limits<std::int32_t>::max();
  for (const std::int32_t limit : {config.prompt_tokens_max, traits.context_tokens_max}) {
    if (limit > 0) tokens = std::min(tokens, limit);
  }
  return tokens;
}

}  // namespace

GroupLimits GroupLimitsOf(const PolicyTraits& traits) {
  const std::int32_t tokens =
      traits.sized_for_tokens > 0 ? traits.sized_for_tokens : traits.tokens_per_step_max;
  GroupLimits limits{.tokens_in_flight = std::int64_t{tokens} * traits.steps_in_flight_max,
                     .retention_interval = traits.retention_interval};
  if (traits.context_tokens_max > 0) limits.context_tokens = traits.context_tokens_max;
  return limits;
}

void ValidateKvGroups(const KvGroups& groups, const PolicyTraits& traits, std::int32_t blocks) {
  if (!NeedGroupTables(groups)) return;
  if (!traits.keeps_kv_groups) {
    throw InputError(InputError::Kind::kUsage, "policy",
                     fmt::format("{} is not known to serve models whose layers keep different "
                                 "tokens; allowed: vllm_v1 without speculation",
                                 traits.name));
  }
  const std::int32_t interval = traits.retention_interval;
  if (interval > 0 && interval % groups.scheduler_block != 0) {
    throw InputError(InputError::Kind::kUsage, "policy.prefix_cache_retention_interval",
                     fmt::format("is {}; allowed for this model: a multiple of {}, 0 or -1",
                                 interval, groups.scheduler_block));
  }
  if (traits.context_tokens_max == 0) return;
  const std::int64_t most = MostBlocks(groups, GroupLimitsOf(traits));
  if (most > blocks) {
    throw InputError(InputError::Kind::kUsage, "policy",
                     fmt::format("{} KV blocks do not hold a sequence of {} tokens; allowed: {} "
                                 "blocks or more",
                                 blocks, traits.context_tokens_max, most));
  }
}

Engine::Engine(const EngineConfig& config, std::unique_ptr<Policy> policy)
    : pool_(config.kv),
      policy_(std::move(policy)),
      traits_(policy_->traits()),
      servable_tokens_(ServableTokens(config, traits_)),
      plans_per_instant_max_(config.plans_per_instant_max),
      prompt_tokens_max_(config.prompt_tokens_max),
      replica_(config.replica) {
  CHECK(traits_.steps_in_flight_max >= 1);
  CHECK(config.kv.keys_per_block() == 1 || traits_.keeps_prefix_tree);
  plans_.resize(static_cast<std::size_t>(traits_.steps_in_flight_max));
  if (traits_.result_queue == ResultQueue::kInstances) taken_.resize(plans_.size());
  for (StepPlan& plan : plans_) plan.replica = config.replica;
  if (!config.kv_groups || !NeedGroupTables(*config.kv_groups)) return;
  ValidateKvGroups(*config.kv_groups, traits_, config.kv.blocks);
  groups_.emplace(*config.kv_groups, GroupLimitsOf(traits_), pool_);
}

Engine::~Engine() = default;

void Engine::Handle(const Event& event) {
  std::visit(Overloaded{
                 [this](const TransferFinished& e) { OnTransferFinished(e); },
                 [this](const StepFinished& e) { OnStepFinished(e); },
                 [this](const RequestCancelled& e) { OnCancelled(e); },
                 [this](const RequestArrived& e) { OnArrived(e); },
                 [](const WakeUp&) {},
             },
             event);
}

const StepPlan* Engine::PlanStep(TimePoint now) {
  wake_at_ = kTimeNever;
  if (sequences_.empty()) policy_->Idle();
  if (in_flight_ == traits_.steps_in_flight_max || sequences_.empty()) return nullptr;
  if (now != planned_at_) {
    planned_at_ = now;
    plans_this_instant_ = 0;
  }
  if (plans_per_instant_max_ > 0 && plans_this_instant_ >= plans_per_instant_max_) return nullptr;
  ++plans_this_instant_;

  StepPlan& plan = taken_.empty() ? Slot(next_step_) : FreeSlot();
  StepBuilder builder(now, traits_, sequences_, pool_, census_, plan, reservations_,
                      servable_tokens_, groups_ ? &*groups_ : nullptr);
  const bool by_streak = PlanStreak(builder, plan);
  if (!by_streak && !PlanByPolicy(builder, plan)) return nullptr;
  WriteState(plan, pool_.free() + pool_.cached());
  CheckPlan(plan);
  if (taken_.empty()) {
    streak_can_begin_ = by_streak || (DecodeStreak::CanFollow(plan) && !groups_);
    streak_has_ends_ = false;
  } else {
    taken_[static_cast<std::size_t>(&plan - plans_.data())] = true;
  }
  next_step_ = StepId{Index(next_step_) + 1};
  ++in_flight_;
  return &plan;
}

void Engine::WriteState(StepPlan& plan, std::int32_t free_blocks) const {
  plan.free_blocks = free_blocks;
  plan.free_host_blocks = pool_.host_free();
  plan.waiting = census_.waiting;
  plan.running = census_.running;
  plan.swapped = census_.swapped;
}

bool Engine::PlanByPolicy(StepBuilder& builder, StepPlan& plan) {
  EndStreak();
  plan.Clear();
  plan.id = next_step_;
  plan.kv.swap(releases_);
  plan.free_blocks_before = pool_.free() + pool_.cached();
  for (const RequestId id : too_long_) builder.Reject(id, RejectReason::kTooLongForModel);
  too_long_.clear();
  if (groups_) groups_->BeginStep();
  policy_->Plan(builder);
  const bool asks_once = plans_per_instant_max_ > 0;
  for (std::int32_t turns = asks_once ? 0 : traits_.steps_in_flight_max;
       turns > 0 && plan.empty() && policy_->WantsAnotherCall(); --turns) {
    policy_->Plan(builder);
  }
  if (!plan.empty()) return true;
  releases_.swap(plan.kv);
  wake_at_ = policy_->WakeAt();
  if (wake_at_ <= planned_at_)
    ThrowInvariant(9, plan.id, "the policy waits for a time that is past");
  // A transfer that ends brings a request, or the blocks for one.
  const bool transfers = census_.arriving > 0 || !held_.empty();
  if (in_flight_ == 0 && census_.running + census_.waiting + census_.swapped > 0 && !transfers &&
      wake_at_ == kTimeNever && !(asks_once && policy_->WantsAnotherCall())) {
    ThrowInvariant(9, plan.id, "requests are unfinished, nothing is in flight, nothing is planned");
  }
  return false;
}

StepPlan& Engine::FreeSlot() {
  const auto free = std::find(taken_.begin(), taken_.end(), false);
  return plans_[static_cast<std::size_t>(free - taken_.begin())];
}

const StepPlan& Engine::PlanOf(StepId step) const {
  if (taken_.empty()) return plans_[Index(step) % plans_.size()];
  std::size_t slot = 0;
  while (slot < plans_.size() && !(taken_[slot] && plans_[slot].id == step)) ++slot;
  CHECK(slot < plans_.size());
  return plans_[slot];
}

const StepPlan& Engine::Returned(StepId step) {
  CHECK(in_flight_ > 0);
  if (taken_.empty()) {
    CHECK(step == oldest_in_flight_);
    return Slot(step);
  }
  std::size_t slot = 0;
  while (slot < plans_.size() && !(taken_[slot] && plans_[slot].id == step)) ++slot;
  CHECK(slot < plans_.size());
  taken_[slot] = false;
  return plans_[slot];
}

void Engine::CountReturned() {
  --in_flight_;
  oldest_in_flight_ = StepId{Index(oldest_in_flight_) + 1};
}

void Engine::EndStreak() {
  streak_.Close(StepId{Index(next_step_) - 1});
  streak_can_begin_ = false;
}

const SequenceTable& Engine::sequences() {
  EndStreak();
  return sequences_;
}

void Engine::OnStepFinished(const StepFinished& finished) {
  const StepPlan& plan = Returned(finished.step);
  for (const BlockFilled& filled : finished.filled) TakeKey(filled);
  // With publishes_returned_tokens blocks are published unless a later step is in flight.
  const bool publishes_blocks = traits_.publishes_returned_tokens && in_flight_ == 1;
  const bool only_ends = OnlyEnds(finished.outcomes);
  if (streak_.open() && !publishes_blocks && only_ends) {
    streak_.OnReturned();
    const bool has_others = streak_.HasOthers(plan);
    if (finished.outcomes.empty() && streak_can_begin_ && !has_others) return CountReturned();
    if (has_others) {
      ApplyWithOthers(plan, finished);
    } else {
      CloseForEnds();
      for (const ItemOutcome& outcome : finished.outcomes) EndMember(sequences_[outcome.request]);
    }
    // A waiting request may get in after others.
    if (!streak_can_begin_ || (has_others && SomebodyWaits())) EndStreak();
  } else {
    const bool goes_on = streak_can_begin_ && only_ends && !streak_.open();
    if (streak_.open() || !finished.outcomes.empty()) EndStreak();
    ApplyItems(plan, finished);
    if (goes_on && !finished.outcomes.empty()) streak_can_begin_ = streak_has_ends_ = true;
  }
  if (groups_) [[unlikely]]
    TellTables(plan);
  CountReturned();
  policy_->StepReturned(plan);
  if (traits_.keeps_prefix_tree) {
    KvEditor blocks(sequences_, pool_, releases_);
    policy_->UpdateTree(plan, blocks);
  }
  if (traits_.defers_release) ReleaseCollected();
}

void Engine::TakeKey(const BlockFilled& filled) {
  if (!sequences_.contains(filled.request)) return;
  Sequence& s = sequences_[filled.request];
  s.keys.push_back(filled.key);
  if (streak_can_begin_ && s.state == SequenceState::kRunning) streak_.OnKey(s);
}

void Engine::ApplyItems(const StepPlan& plan, const StepFinished& finished) {
  const ItemOutcome* outcome = finished.outcomes.data();
  const ItemOutcome* const end = outcome + finished.outcomes.size();
  const bool publishes = traits_.publishes_returned_tokens;
  // Items with drafts, and the first token of a prefill-only request, take more than to count.
  const bool rare = plan.totals.draft_items > 0 || census_.prefill_only > 0;
  for (const WorkItem& item : plan.work) {
    Sequence& s = sequences_[item.request];
    const std::int32_t emitted = item.emits ? 1 : 0;
    if (outcome != end && outcome->request == item.request) [[unlikely]] {
      ApplyOutcome(s, item, *outcome++);
    } else if (s.state != SequenceState::kRunning || s.stale_in_flight > 0 || rare) [[unlikely]] {
      ApplyOutcome(s, item, {item.request, emitted, FinishReason::kNone});
    } else {
      --s.in_flight;
      s.pending -= emitted;
      s.known += emitted;
      // A later step that is in flight has published these blocks when it was planned.
      if (publishes && s.in_flight == 0) PublishReturned(s);
    }
  }
  CHECK(outcome == end);
}

void Engine::TellTables(const StepPlan& plan) {
  // A request that was preempted has none, until its results are back.
  for (const WorkItem& item : plan.work) groups_->Returned(item.request, item.start + item.tokens);
}

void Engine::ApplyOutcome(Sequence& s, const WorkItem& item, const ItemOutcome& outcome) {
  CHECK(outcome.emitted_tokens <= 1 + item.drafts);
  --s.in_flight;
  const bool stale = item.emits && s.stale_in_flight > 0;
  if (item.emits) (stale ? s.stale_in_flight : s.pending) -= 1 + item.drafts;
  if (s.state == SequenceState::kFinished) {
    // Issued before its end was known; the token is dropped.
    if (!traits_.defers_release && s.in_flight == 0) ReleaseBlocks(s);
    CloseIfDone(s);
    return;
  }
  const bool forgets = traits_.forgets_stale_tokens && outcome.finish == FinishReason::kNone;
  // The token of a stale item is computed again, and counts then, even if the world knows it.
  s.known += forgets ? static_cast<std::int32_t>(item.emits && !stale) : outcome.emitted_tokens;
  if (!stale) TakeDrafts(s, item, outcome);
  if (traits_.publishes_returned_tokens && s.state == SequenceState::kRunning) PublishReturned(s);
  if (outcome.finish == FinishReason::kNone) {
    if (!s.prefill_only || s.known == s.prompt_tokens) return;
    HandOver(s);
  }
  EndReturned(s);
}

void Engine::EndReturned(Sequence& s) {
  EndSequence(s);
  if (!traits_.defers_release) ReleaseBlocks(s);
  CloseIfDone(s);
}

void Engine::TakeDrafts(Sequence& s, const WorkItem& item, const ItemOutcome& outcome) const {
  // Rejected drafts are not computed tokens of the request: I13.
  if (item.drafts > 0) s.computed -= 1 + item.drafts - outcome.emitted_tokens;
  if (traits_.drafts_max == 0 || traits_.assumes_drafts || !item.emits) return;
  CHECK(outcome.new_drafts <= traits_.drafts_max);
  s.drafts = outcome.new_drafts;
}

void Engine::PublishReturned(Sequence& s) {
  const std::int32_t settled = s.computed - s.pending;
  if (!pool_.HasUnpublished(s.blocks, settled)) return;
  PublishBlocks(pool_, groups_ ? &*groups_ : nullptr, s, settled);
}

void Engine::ReleaseCollected() {
  collected_.clear();
  policy_->CollectReleases(collected_);
  for (const RequestId id : collected_) {
    Sequence& s = sequences_[id];
    CHECK(s.state == SequenceState::kFinished);
    ReleaseBlocks(s);
    CloseIfDone(s);
  }
}

void Engine::ReleaseBlocks(Sequence& s) {
  if (!HoldsMemory(s)) return;
  if (traits_.publishes_at_end) {
    pool_.Publish(s.blocks, s.keys, pool_.FullBlocks(std::min(s.prompt_tokens, s.computed)));
  }
  releases_.push_back({KvOperation::Kind::kRelease, s.id, BlockId::kNone, BlockId::kNone});
  if (groups_) return ReleaseTables(*groups_, s);
  pool_.Release(s.blocks);
}

void Engine::OnCancelled(const RequestCancelled& cancelled) {
  if (!sequences_.contains(cancelled.request)) return;
  Sequence& s = sequences_[cancelled.request];
  if (s.state == SequenceState::kFinished) return;
  EndStreak();
  EndSequence(s);
  if (traits_.defers_release) {
    if (in_flight_ == 0) ReleaseCollected();
    if (sequences_.contains(cancelled.request)) CloseIfDone(s);
    return;
  }
  // A step in flight still writes into its blocks. Later steps run after it; copies of keys and
  // values may not.
  if (s.in_flight == 0 || (traits_.frees_in_flight && !receives_)) ReleaseBlocks(s);
  CloseIfDone(s);
}

void Engine::OnArrived(const RequestArrived& arrived) {
  const Request& request = arrived.request;
  if (sequences_.OpeningMoves()) EndStreak();
  streak_can_begin_ = false;  // the next plan ends an open streak
  Sequence& s = sequences_.Open(request.id);
  SetUp(s, request, request.prefix_keys);
  ++census_.waiting;
  if (request.prefill_only) {
    s.prefill_only = true;
    s.max_output_tokens = 1;
    s.predicted_output_tokens = std::min(s.predicted_output_tokens, 1);
    ++census_.prefill_only;
  }
  if (prompt_tokens_max_ > 0 && s.prompt_tokens > prompt_tokens_max_) {
    too_long_.push_back(s.id);
  } else {
    policy_->Enqueue(s);
  }
}

void Engine::SetUp(Sequence& s, const Request& request, std::span<const BlockKey> prefix_keys) {
  CHECK(request.prompt_tokens >= 1 && request.max_output_tokens >= 1);
  BlockTable blocks = std::move(s.blocks);
  std::vector<BlockKey> keys = std::move(s.keys);
  // Capacities are powers of two, so that the memory soon fits every request that uses it.
  if (keys.capacity() < prefix_keys.size()) keys.reserve(std::bit_ceil(prefix_keys.size()));
  keys.assign(prefix_keys.begin(), prefix_keys.end());
  s = Sequence{};
  s.blocks = std::move(blocks);
  s.keys = std::move(keys);
  s.id = request.id;
  s.prompt_tokens = request.prompt_tokens;
  s.max_output_tokens = request.max_output_tokens;
  s.known = request.prompt_tokens;
  s.priority = request.priority;
  s.tenant = request.tenant;
  s.ignore_eos = request.ignore_eos;
  if (traits_.reads_predictions) s.predicted_output_tokens = request.predicted_output_tokens;
  s.arrival = request.arrival;
}

void Engine::EndSequence(Sequence& s) {
  switch (s.state) {
    case SequenceState::kWaiting:
      --census_.waiting;
      break;
    case SequenceState::kRunning:
      --census_.running;
      break;
    case SequenceState::kSwapped:
      --census_.swapped;
      break;
    case SequenceState::kFinished:
      CHECK(false);
  }
  s.state = SequenceState::kFinished;
  census_.prefill_only -= s.prefill_only ? 1 : 0;
  if (std::erase(too_long_, s.id) == 0) policy_->Remove(s);
}

void Engine::CloseIfDone(Sequence& s) {
  if (s.in_flight == 0 && !HoldsMemory(s)) sequences_.Close(s.id);
}

void Engine::CheckPlan(const StepPlan& plan) const {
  const StepTotals& totals = plan.totals;
  if (traits_.tokens_per_step_max > 0 &&
      totals.prefill_tokens + totals.decode_items > traits_.tokens_per_step_max) [[unlikely]] {
    ThrowInvariant(1, plan.id, "more tokens than the budget");
  }
  if (traits_.sequences_per_step_max > 0 &&
      static_cast<std::int64_t>(plan.work.size()) > traits_.sequences_per_step_max) [[unlikely]] {
    ThrowInvariant(1, plan.id, "more sequences than allowed");
  }
  if (pool_.free() < 0) ThrowInvariant(4, plan.id, "more blocks are reserved than free");
}

void Engine::CheckDrained() const {
  if (!sequences_.empty()) {
    RequestId first{};
    bool found = false;
    sequences_.ForEach([&](RequestId id, const Sequence&) {
      if (!found) first = id;
      found = true;
    });
    ThrowInvariant(11, next_step_, first, "it neither finished nor was rejected or cancelled");
  }
  if (!held_.empty() || pool_.free() + pool_.cached() != pool_.usable() ||
      pool_.host_free() != pool_.config().host_blocks || !policy_->Audit(sequences_)) {
    ThrowInvariant(11, next_step_, "not all blocks came back");
  }
}

void Engine::CheckMemory() const {
  std::vector<const BlockTable*> tables;
  std::vector<BlockTable> of_groups;
  if (groups_) groups_->AppendTables(of_groups);
  for (const BlockTable& table : of_groups) tables.push_back(&table);
  sequences_.ForEach([&](RequestId, const Sequence& s) { tables.push_back(&s.blocks); });
  held_.ForEach([&](RequestId, const BlockTable& table) { tables.push_back(&table); });
  if (!pool_.Audit(tables)) ThrowInvariant(4, next_step_, "the KV pool does not add up");
  if (groups_ && !groups_->Audit()) ThrowInvariant(4, next_step_, "a block is missing in a table");
  if (!policy_->Audit(sequences_)) {
    ThrowInvariant(4, next_step_, "the policy's account of memory does not add up");
  }
}

// For clusters that separate prefill from decode.

// Called when all tokens of the request have returned. A request that was preempted meanwhile has
// nothing to copy: its decoding replica computes all of it.
void Engine::HandOver(Sequence& s) {
  Handover handover{.request = s.id, .known = s.known, .tokens = 0, .keys = s.keys};
  CHECK(!groups_);
  if (s.state == SequenceState::kRunning && s.computed == s.known - 1) {
    handover.tokens = s.computed;
    BlockTable& hold = held_.OpenInAnyOrder(s.id);
    hold = BlockTable{};
    pool_.Share(s.blocks, hold);
  }
  handovers_.push_back(std::move(handover));
}

void Engine::Receive(const Request& request, const Handover& handover) {
  CHECK(traits_.receives_kv && !groups_);
  receives_ = true;
  EndStreak();
  // They come from several replicas, in any order.
  Sequence& s = sequences_.OpenInAnyOrder(request.id);
  SetUp(s, request, handover.keys);
  ++census_.waiting;
  s.known = handover.known;
  // First come, first served is the order of the arrivals here, not that of the requests.
  s.admitted_once = true;
  if (handover.tokens > 0) {
    s.remote = RemoteKv::kElsewhere;
    s.remote_tokens = handover.tokens;
  }
  policy_->Enqueue(s);
}

std::span<const BlockId> Engine::HeldBlocks(RequestId id) const {
  if (!held_.contains(id)) return {};
  return held_[id].device;
}

std::span<const BlockId> Engine::TakenBlocks(RequestId id) const {
  return sequences_[id].blocks.device;
}

void Engine::ReleaseHeld(RequestId id) {
  EndStreak();
  pool_.Release(held_[id]);
  held_.Close(id);
}

void Engine::OnTransferFinished(const TransferFinished& finished) {
  if (finished.from == replica_) {
    ReleaseHeld(finished.request);
    return;
  }
  CHECK(finished.to == replica_);
  EndStreak();
  Sequence& s = sequences_[finished.request];
  CHECK(s.remote == RemoteKv::kArriving && s.in_flight > 0);
  --s.in_flight;
  --census_.arriving;
  s.remote = RemoteKv::kArrived;
  s.computed = s.remote_tokens;
  if (s.state != SequenceState::kFinished) return;
  // It was cancelled while its blocks were being filled.
  if (!traits_.defers_release) ReleaseBlocks(s);
  CloseIfDone(s);
}

}  // namespace twin
