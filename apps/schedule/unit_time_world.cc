#include "apps/schedule/unit_time_world.h"

#include <algorithm>

#include "core/check.h"
#include "core/hash.h"

namespace twin::run {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kOutputTokenStride =
    1'000'000;  // output token j of request i: stride * (i + 1) + j

// The entry of a request's script for its item number `item`.
std::int32_t Scripted(const std::vector<std::int32_t>& script, std::int32_t item) {
  return script.empty() ? 0 : script[static_cast<std::size_t>(item) % script.size()];
}

std::uint32_t Number(RequestId id) { return Index(id); }

ordered_json Numbers(const std::vector<RequestId>& ids) {
  ordered_json list = ordered_json::array();
  for (const RequestId id : ids) list.push_back(Number(id));
  return list;
}

// A number of blocks; with a window pool a list of that and its number.
ordered_json OfPools(std::int32_t blocks, const std::optional<WindowPoolState>& windows,
                     std::int32_t WindowPoolState::*pages) {
  if (!windows) return blocks;
  return ordered_json::array({blocks, (*windows).*pages});
}

bool IsRejected(const StepPlan& plan, RequestId id) {
  return std::any_of(plan.rejected.begin(), plan.rejected.end(),
                     [id](const Rejection& rejection) { return rejection.request == id; });
}

}  // namespace

UnitTimeWorld::UnitTimeWorld(const ScheduleCase& schedule_case, const KvPool& pool,
                             const UnitTimeOptions& options)
    : case_(schedule_case),
      pool_(pool),
      options_(options),
      requests_(schedule_case.requests.size()) {
  for (std::size_t i = 0; i < case_.requests.size(); ++i) {
    if (case_.requests[i].cancel > 0) departures_.push_back(RequestId{static_cast<uint32_t>(i)});
  }
  std::stable_sort(departures_.begin(), departures_.end(), [this](RequestId a, RequestId b) {
    return case_.requests[Index(a)].cancel < case_.requests[Index(b)].cancel;
  });
}

Instant UnitTimeWorld::Advance(TimePoint /*wake_at*/) {
  events_.clear();
  keys_.clear();
  if (called_) EndIteration();
  ++iteration_;

  const bool idle = unfinished_ == 0 && batches_.empty();
  if (events_.empty() && idle) {
    if (next_arrival_ == case_.requests.size()) return {};
    iteration_ = std::max<std::int64_t>(iteration_, case_.requests[next_arrival_].step);
  }
  // One instant more, so that the results of the last iteration are handled.
  if (iteration_ > options_.iterations_max + 1) return {};
  TakeCancellations();
  TakeArrivals();
  // After the last finish an asynchronous loop calls the scheduler once more, and then takes in the
  // batches still in flight, one per iteration. The files leave these iterations out where no
  // request follows.
  const bool asynchronous =
      options_.queue == ResultQueue::kAsync || options_.queue == ResultQueue::kBatchQueue;
  const bool more_follow = next_arrival_ < case_.requests.size();
  const bool overlaps = options_.queue == ResultQueue::kOverlap;
  drains_ = !overlaps && unfinished_ == 0 && !finished_since_call_;
  called_ = unfinished_ > 0 || !cancelled_.empty() || (overlaps && !batches_.empty()) ||
            (asynchronous && more_follow && (finished_since_call_ || !batches_.empty()));
  finished_since_call_ = false;
  // With nobody left to schedule, batches still out return without a scheduler call.
  if (!called_ && events_.empty() && !batches_.empty()) {
    ordered_json unrecorded;
    ProcessOldest(unrecorded);
  }
  launched_ = nullptr;
  if (events_.empty()) events_.emplace_back(WakeUp{});
  return {TimePoint{Duration{iteration_}}, events_};
}

// Handles departures after the arrivals of the iteration. The engine need not hear of a client that
// leaves as it arrives.
void UnitTimeWorld::TakeCancellations() {
  cancelled_.clear();
  for (; next_departure_ < departures_.size(); ++next_departure_) {
    const RequestId id = departures_[next_departure_];
    const ScheduleRequest& request = case_.requests[Index(id)];
    if (request.cancel > iteration_) return;
    RequestState& state = requests_[Index(id)];
    if (state.finished || state.rejected) continue;
    state.finished = finished_since_call_ = true;
    cancelled_.push_back(id);
    if (request.step == iteration_) continue;
    --unfinished_;
    events_.emplace_back(RequestCancelled{id});
  }
}

void UnitTimeWorld::TakeArrivals() {
  while (next_arrival_ < case_.requests.size() &&
         case_.requests[next_arrival_].step <= iteration_) {
    const std::size_t index = next_arrival_++;
    if (!requests_[index].finished) Announce(static_cast<std::int32_t>(index));
  }
}

void UnitTimeWorld::Launch(const StepPlan& plan) {
  CHECK(launched_ == nullptr);
  launched_ = &plan;
  if (options_.forgets_stale_tokens) stale_.Launched(plan);
  called_ = true;  // releases alone also make an iteration
  for (const Rejection& rejection : plan.rejected) {
    requests_[Index(rejection.request)].rejected = true;
    --unfinished_;
  }
}

void UnitTimeWorld::EndIteration() {
  ordered_json step;
  step["it"] = iteration_;
  step["cancelled"] = Numbers(cancelled_);
  if (launched_ != nullptr) {
    Describe(*launched_, step);
  } else {
    StepPlan nothing;
    nothing.free_host_blocks = pool_.host_free();
    Describe(nothing, step);
  }
  const bool holds_place = options_.queue != ResultQueue::kOverlap && !drains_;
  if (holds_place || launched_ != nullptr) batches_.PushBack({iteration_, launched_});
  step["returned"] = 0;
  step["verified"] = step["emitted"] = ordered_json::array();
  step["finished"] = ordered_json::array();
  if (drains_ || ResultsAreDue()) ProcessOldest(step);
  steps_.push_back(std::move(step));
  free_after_open_ = true;
}

bool UnitTimeWorld::ResultsAreDue() const {
  const auto queued = static_cast<std::int32_t>(batches_.size());
  switch (options_.queue) {
    case ResultQueue::kSynchronous:
    case ResultQueue::kInstances:
      return true;
    case ResultQueue::kPipeline:
      return queued >= options_.depth;
    case ResultQueue::kAsync:
      return queued > 1 || batches_.back().plan == nullptr;
    case ResultQueue::kOverlap:
      return queued > (launched_ != nullptr ? 1 : 0);
    case ResultQueue::kBatchQueue:
      return queued >= options_.depth || (batches_.back().plan == nullptr && unfinished_ == 0);
  }
  return true;
}

void UnitTimeWorld::ProcessOldest(ordered_json& step) {
  const Batch batch = batches_.PopFront();
  step["returned"] = batch.iteration;
  if (batch.plan == nullptr) return;
  // SGLang's queue holds what was computed: a call that only refuses requests is not in it.
  if (options_.queue == ResultQueue::kOverlap && batch.plan->work.empty()) step["returned"] = 0;
  outcomes_.clear();
  filled_.clear();
  std::vector<std::int32_t> finished;
  step["verified"] = step["emitted"] = ordered_json::array();
  for (const WorkItem& item : batch.plan->work) Emit(item, finished, step);
  if (options_.forgets_stale_tokens) stale_.Returned();
  if (!batch.plan->padding_rows.empty() || options_.batch_delivery) {
    // All rows of a padded batch are delivered together, when the last one has finished.
    std::vector<std::uint32_t> rows;
    for (const WorkItem& item : batch.plan->work) rows.push_back(Number(item.request));
    for (const RequestId id : batch.plan->padding_rows) rows.push_back(Number(id));
    std::sort(rows.begin(), rows.end());
    const bool done =
        std::all_of(rows.begin(), rows.end(), [&](auto r) { return requests_[r].finished; });
    step["delivered"] = done ? ordered_json(rows) : ordered_json::array();
  }
  std::sort(finished.begin(), finished.end());
  step["finished"] = finished;
  events_.emplace_back(
      StepFinished{batch.plan->id, TimePoint{Duration{batch.iteration}}, outcomes_, filled_});
}

void UnitTimeWorld::Emit(const WorkItem& item, std::vector<std::int32_t>& finished,
                         ordered_json& step) {
  RequestState& state = requests_[Index(item.request)];
  if (!item.emits) return;
  if (options_.forgets_stale_tokens && stale_.Takes(item.request)) {
    outcomes_.push_back({item.request, 0, FinishReason::kNone});
    return;
  }
  if (state.finished) return;
  const ScheduleRequest& request = case_.requests[Index(item.request)];
  ItemOutcome outcome{.request = item.request};
  outcome.accepted_drafts =
      item.phase == Phase::kDecode
          ? std::min<std::int32_t>(item.drafts, Scripted(request.accept, state.items))
          : 0;
  outcome.new_drafts = std::min(options_.drafts_max, Scripted(request.propose, state.items));
  ++state.items;
  if (item.drafts > 0) {
    step["verified"].push_back({Number(item.request), item.drafts, outcome.accepted_drafts});
  }
  bool full = false;
  do {
    AppendToken(item.request, kOutputTokenStride * (Index(item.request) + 1) + state.emitted,
                filled_);
    ++state.emitted;
    ++outcome.emitted_tokens;
    full = options_.context_tokens_max > 0 &&
           request.prompt_tokens + state.emitted >= options_.context_tokens_max;
  } while (state.emitted < request.output_tokens && !full &&
           outcome.emitted_tokens <= outcome.accepted_drafts);
  step["emitted"].push_back({Number(item.request), outcome.emitted_tokens});
  if (state.emitted < request.output_tokens && !full) {
    if (item.drafts > 0 || outcome.new_drafts > 0) outcomes_.push_back(outcome);
    return;
  }
  state.finished = true;
  finished_since_call_ = true;
  --unfinished_;
  finished.push_back(static_cast<std::int32_t>(Index(item.request)));
  const bool limit = full || state.emitted == request.max_output_tokens;
  outcome.finish = limit ? FinishReason::kLength : FinishReason::kStop;
  outcomes_.push_back(outcome);
}

// Chains the keys of prefixes as they become known; without prompt token ids the content is
// unknown.
void UnitTimeWorld::AppendToken(RequestId id, std::int64_t token,
                                std::vector<BlockFilled>& filled) {
  if (case_.requests[Index(id)].tokens.empty()) return;
  RequestState& state = requests_[Index(id)];
  state.open_tokens.push_back(token);
  if (static_cast<std::int32_t>(state.open_tokens.size()) < pool_.config().tokens_per_key()) return;
  auto key = static_cast<std::uint64_t>(state.last_key);
  for (const std::int64_t t : state.open_tokens)
    key = MixWords(key, static_cast<std::uint64_t>(t) + 1);
  state.open_tokens.clear();
  state.last_key = SharedKey(key);
  filled.push_back({id, state.last_key});
}

std::vector<BlockKey> UnitTimeWorld::PromptKeys(std::int32_t index) {
  const RequestId id{static_cast<std::uint32_t>(index)};
  std::vector<BlockFilled> filled;
  for (const std::int64_t token : case_.requests[Index(id)].tokens) AppendToken(id, token, filled);
  std::vector<BlockKey> keys;
  for (const BlockFilled& block : filled) keys.push_back(block.key);
  return keys;
}

void UnitTimeWorld::Announce(std::int32_t index) {
  const ScheduleRequest& r = case_.requests[static_cast<std::size_t>(index)];
  ++unfinished_;
  keys_.push_back(PromptKeys(index));
  events_.emplace_back(RequestArrived{{.id = RequestId{static_cast<std::uint32_t>(index)},
                                       .arrival = TimePoint{Duration{iteration_}},
                                       .prompt_tokens = r.prompt_tokens,
                                       .max_output_tokens = r.max_output_tokens,
                                       .priority = r.priority,
                                       .tenant = static_cast<std::uint32_t>(r.tenant),
                                       .ignore_eos = r.ignore_eos,
                                       .predicted_output_tokens = r.predicted_output_tokens,
                                       .prefix_keys = keys_.back()}});
}

void UnitTimeWorld::OnPlanned(const Policy& policy) {
  free_blocks_ = pool_.free();
  if (options_.groups != nullptr) held_ = Held();
  cached_blocks_ = pool_.cached();
  evicted_blocks_ = pool_.discards() - evicted_blocks_;
  window_pool_ = policy.window_pool();
  if (window_pool_) evicted_pages_ = window_pool_->evicted - evicted_pages_;
  const std::span<const Gauge> gauges = policy.Gauges();
  gauges_.assign(gauges.begin(), gauges.end());
}

void UnitTimeWorld::OnHandled(const Policy& policy) {
  const std::optional<WindowPoolState> windows = policy.window_pool();
  evicted_blocks_ = pool_.discards();
  if (windows) evicted_pages_ = windows->evicted;
  if (!free_after_open_) return;
  steps_.back()["free_after"] = OfPools(pool_.free(), windows, &WindowPoolState::free);
  steps_.back()["cached_after"] = OfPools(pool_.cached(), windows, &WindowPoolState::cached);
  free_after_open_ = false;
}

ordered_json UnitTimeWorld::Held() const {
  ordered_json held = ordered_json::array();
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const RequestId id{static_cast<std::uint32_t>(i)};
    if (!options_.groups->contains(id)) continue;
    ordered_json blocks = {Number(id)};
    for (std::size_t g = 0; g < options_.groups->groups().groups.size(); ++g) {
      const std::span<const BlockId> table = options_.groups->Table(id, g);
      blocks.push_back(std::ssize(table) - std::ranges::count(table, BlockId::kNone));
    }
    held.push_back(std::move(blocks));
  }
  return held;
}

void UnitTimeWorld::Describe(const StepPlan& plan, ordered_json& step) const {
  step["work"] = ordered_json::array();
  for (const WorkItem& item : plan.work) {
    step["work"].push_back(
        {Number(item.request), item.phase == Phase::kDecode ? "D" : "P", item.tokens});
  }
  for (const char* list : {"preempted", "swapped_out", "rejected", "hits", "drafts"})
    step[list] = ordered_json::array();
  for (const WorkItem& item : plan.work) {
    if (item.drafts > 0) step["drafts"].push_back({Number(item.request), item.drafts});
  }
  for (const Preemption& p : plan.preempted) {
    if (IsRejected(plan, p.request)) continue;  // its blocks are freed, but it does not wait again
    step[p.how == Preemption::How::kSwap ? "swapped_out" : "preempted"].push_back(
        Number(p.request));
  }
  step["swapped_in"] = Numbers(plan.resumed);
  step["flushed"] = Numbers(plan.released);
  for (const Preemption& p : plan.preempted) step["flushed"].push_back(Number(p.request));
  for (const Rejection& r : plan.rejected) step["rejected"].push_back(Number(r.request));
  for (const PrefixHit& hit : plan.hits) step["hits"].push_back({Number(hit.request), hit.tokens});
  std::vector<RequestId> rows = plan.padding_rows;
  for (const WorkItem& item : plan.work) rows.push_back(item.request);
  std::sort(rows.begin(), rows.end());
  step["rows"] = Numbers(rows);
  step["computed_tokens"] = plan.totals.tokens();
  step["reserved_slots"] = (pool_.usable() - free_blocks_) * pool_.block_size();
  step["kind"] = plan.admitted.empty() ? "decode" : "prefill";  // the calls of TGI's router
  step["free"] = OfPools(free_blocks_, window_pool_, &WindowPoolState::free);
  step["cached"] = OfPools(cached_blocks_, window_pool_, &WindowPoolState::cached);
  if (options_.groups != nullptr) step["held"] = held_;
  if (evicted_blocks_ > 0) step["evicted"] = evicted_blocks_;
  if (window_pool_ && evicted_pages_ > 0) step["evicted_swa"] = evicted_pages_;
  for (const Gauge& gauge : gauges_) step[gauge.name] = gauge.value;
  step["cpu_free"] = plan.free_host_blocks;
}

}  // namespace twin::run
