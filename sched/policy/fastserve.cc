#include "sched/policy/fastserve.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "sched/policy/field_check.h"
#include "sched/step_builder.h"

namespace twin {
namespace {

constexpr CaseName kFastServeCaseNames[] = {{.name = "fastserve"}};

std::uint64_t LevelBit(std::int32_t level) { return std::uint64_t{1} << level; }

bool HoldsBlocks(const Sequence& s) { return s.blocks.held() > 0; }

void RequireTime(const char* field, Duration time, Duration most) {
  RequireField(time >= Duration{0} && time <= most, field, Seconds(time),
               fmt::format("must be 0 to {}", Seconds(most)));
}

}  // namespace

std::span<const CaseName> FastServeConfig::CaseNames() { return kFastServeCaseNames; }

void FastServeConfig::Validate() const {
  RequireField(num_queues >= 1 && num_queues <= 64, "fastserve.num_queues", num_queues,
               "must be 1 to 64");
  RequireTime("fastserve.base_quantum_s", base_quantum, std::chrono::seconds(1'000));
  RequireTime("fastserve.prefill_s", prefill_time, std::chrono::seconds(1'000));
  RequireTime("fastserve.prefill_token_s", prefill_token_time, std::chrono::seconds(1));
  RequireTime("fastserve.starvation_threshold_s", starvation_threshold,
              std::chrono::seconds(1'000'000));
}

PolicyTraits FastServeConfig::Traits() const {
  PolicyTraits traits;
  traits.name = kName;
  traits.memory_rule = "vllm_v0";
  traits.step_engine = "v0";
  traits.context_tokens_max = max_model_len;
  traits.outputs_end_at_context = true;
  traits.sized_for_tokens = max_tokens_per_batch;
  traits.sequences_per_step_max = max_batch_size;
  traits.first_come_first_served = false;
  traits.swaps_to_host = true;
  return traits;
}

FastServePolicy::FastServePolicy(const FastServeConfig& config)
    : config_(config), traits_(config.Traits()) {
  double quantum = static_cast<double>(config.base_quantum.count());
  for (std::int32_t level = 0; level < config.num_queues; ++level) {
    quanta_.push_back(DurationFromNanoseconds(quantum));
    quantum *= config.threshold;
  }
  queues_.assign(quanta_.size(), WaitingQueue(QueueOrder::kFcfs));
}

std::int32_t FastServePolicy::FirstLevel(std::int32_t prompt_tokens) const {
  if (!config_.use_skip_join) return 0;
  const Duration first_step = config_.prefill_time + config_.prefill_token_time * prompt_tokens;
  const auto found = std::find_if(quanta_.begin(), quanta_.end() - 1,
                                  [&](Duration quantum) { return quantum >= first_step; });
  return static_cast<std::int32_t>(found - quanta_.begin());
}

void FastServePolicy::PushFront(RequestId id) {
  Progress& progress = progress_[id];
  TakeFirstPlace(progress);
  NotePlace(id, progress);
  Return(id);
}

void FastServePolicy::NotePlace(RequestId id, const Progress& progress) {
  if (progress.memory == Memory::kDevice) on_device_.Push(id, -progress.place);
  if (progress.memory == Memory::kHost) on_host_.Push(id, progress.place);
}

void FastServePolicy::PushBack(RequestId id) {
  Progress& progress = progress_[id];
  progress.place = progress.level * kLevelStride + ++back_places_;
  queue(progress.level).PushArrival(id, 0);
  nonempty_ |= LevelBit(progress.level);
}

void FastServePolicy::Return(RequestId id) {
  const std::int32_t level = progress_[id].level;
  queue(level).PushPreempted(id, 0);
  nonempty_ |= LevelBit(level);
}

RequestId FastServePolicy::PopFront() {
  WaitingQueue& first = first_queue();
  const RequestId id = first.PopFront();
  // The bit of this level is the lowest one.
  if (first.empty()) nonempty_ &= nonempty_ - 1;
  return id;
}

void FastServePolicy::Enqueue(const Sequence& sequence) {
  progress_.Open(sequence.id) = {.level = FirstLevel(sequence.prompt_tokens),
                                 .idle_since = sequence.arrival};
  PushBack(sequence.id);
}

void FastServePolicy::Remove(const Sequence& sequence) {
  SettleRepeats();
  const Progress& progress = progress_[sequence.id];
  if (progress.in_batch) {
    std::erase(batch_, sequence.id);
  } else if (progress.set_aside) {
    set_aside_.Erase(sequence.id);
    long_set_aside_.erase(progress.place);
  } else {
    queue(progress.level).Erase(sequence.id);
    if (queue(progress.level).empty()) nonempty_ &= ~LevelBit(progress.level);
  }
  progress_.Close(sequence.id);
}

void FastServePolicy::Plan(StepBuilder& step) {
  const bool repeats = !promotes() && RepeatBatch(step.now());
  if (!repeats) {
    ReturnBatch(step.now());
    if (promotes()) PromoteStarving(step.now());
    FormBatch(step);
  }
  const bool nobody_went = (repeats && FitsAhead(step)) || MakeRoom(step);
  if (!repeats) AdmitBatch(step);
  ScheduleBatch(step);
  if (nobody_went && config_.proactive_offloading) LoadAhead(step);
  if (batch_.empty()) return;
  planned_at_ = step.now();
  ++steps_;
}

// The time of a step is known when the next one begins: only ContinueDecodeStreak() can tell
// whether the batch repeats.
std::optional<DecodeLimits> FastServePolicy::DecodeStreakLimits() const {
  return repeats_.prepared && nobody_waits() ? std::optional(DecodeLimits{.asks_each_step = true})
                                             : std::nullopt;
}

bool FastServePolicy::ContinueDecodeStreak(StepBuilder& step) {
  if (promotes() || !FitsAhead(step) || !RepeatBatch(step.now())) return false;
  planned_at_ = step.now();
  ++steps_;
  return true;
}

bool FastServePolicy::FitsAhead(const StepBuilder& step) const {
  return step.pool().free() - static_cast<std::int32_t>(batch_.size()) >= SpareBlocks();
}

bool FastServePolicy::RepeatBatch(TimePoint now) {
  if (!nobody_waits()) return false;
  if (!repeats_.prepared) PrepareRepeats();
  const Duration step_time = now - planned_at_;
  if (repeats_.served + step_time > repeats_.room) return false;
  repeats_.served += step_time;
  repeats_.latest = now;
  ++repeats_.steps;
  auto begin = batch_.begin();
  for (const std::int32_t end : repeats_.level_ends) {
    std::reverse(begin, batch_.begin() + end);
    begin = batch_.begin() + end;
  }
  return true;
}

void FastServePolicy::PrepareRepeats() {
  repeats_.prepared = true;
  repeats_.level_ends.clear();
  repeats_.room = Duration::max();
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    const Progress& progress = progress_[batch_[i]];
    const Duration quantum = quanta_[static_cast<std::size_t>(progress.level)];
    repeats_.room = std::min(repeats_.room, quantum - progress.served);
    const bool last = i + 1 == batch_.size();
    if (last || progress_[batch_[i + 1]].level != progress.level) {
      repeats_.level_ends.push_back(static_cast<std::int32_t>(i) + 1);
    }
  }
}

void FastServePolicy::SettleRepeats() {
  if (repeats_.steps > 0) {
    front_places_ += (repeats_.steps - 1) * static_cast<std::int64_t>(batch_.size());
    std::int32_t begin = 0;
    for (const std::int32_t end : repeats_.level_ends) {
      // The latest repeat took them in this order before it reversed them.
      for (std::int32_t i = end; i-- > begin;) {
        Progress& progress = progress_[batch_[static_cast<std::size_t>(i)]];
        progress.served += repeats_.served;
        progress.idle_since = repeats_.latest;
        TakeFirstPlace(progress);
      }
      begin = end;
    }
  }
  repeats_.prepared = false;
  repeats_.steps = 0;
  repeats_.served = Duration{0};
}

void FastServePolicy::ReturnBatch(TimePoint now) {
  SettleRepeats();
  for (const RequestId id : batch_) {
    Progress& progress = progress_[id];
    progress.idle_since = now;
    progress.served += now - planned_at_;
    if (progress.served > quanta_[static_cast<std::size_t>(progress.level)]) {
      progress.level = std::min(progress.level + 1, config_.num_queues - 1);
      progress.served = Duration{0};
    }
    progress.in_batch = false;
    PushFront(id);
  }
  batch_.clear();
  DropFormerPlaces();
}

void FastServePolicy::DropFormerPlaces() {
  on_device_.DropOutdated([this](RequestId id, std::int64_t key) { return IsOnDevice(id, key); });
  on_host_.DropOutdated([this](RequestId id, std::int64_t key) { return IsOnHost(id, key); });
}

bool FastServePolicy::IsOnDevice(RequestId id, std::int64_t key) const {
  if (!progress_.contains(id)) return false;
  const Progress& progress = progress_[id];
  return progress.memory == Memory::kDevice && !progress.in_batch && progress.place == -key;
}

bool FastServePolicy::IsOnHost(RequestId id, std::int64_t key) const {
  if (!progress_.contains(id)) return false;
  const Progress& progress = progress_[id];
  return progress.memory == Memory::kHost && progress.place == key;
}

void FastServePolicy::PromoteStarving(TimePoint now) {
  waited_.clear();
  while (!nobody_waits()) waited_.push_back(FirstIsSetAside() ? PopSetAside() : PopFront());
  const auto starves = [&](RequestId id) {
    return now - progress_[id].idle_since >= config_.starvation_threshold;
  };
  for (auto id = waited_.rbegin(); id != waited_.rend(); ++id) {
    if (!starves(*id)) Return(*id);
  }
  for (const RequestId id : waited_) {
    if (!starves(id)) continue;
    Progress& progress = progress_[id];
    progress.level = 0;
    progress.served = Duration{0};
    progress.idle_since = now;
    PushFront(id);
  }
}

// A request that could not even be served alone.
bool FastServePolicy::RejectIfNever(StepBuilder& step, RequestId id) {
  const Sequence& s = step.sequence(id);
  const std::int32_t context =
      config_.max_model_len > 0 ? config_.max_model_len : s.prompt_tokens + s.max_output_tokens;
  const bool too_long = s.prompt_tokens >= context;
  const std::int32_t tokens = std::min(s.prompt_tokens + s.max_output_tokens, context);
  if (!too_long && step.pool().BlocksFor(tokens) <= step.pool().usable()) return false;
  step.Reject(id, too_long ? RejectReason::kTooLongForModel : RejectReason::kTooLargeForCache);
  progress_.Close(id);
  return true;
}

void FastServePolicy::FormBatch(StepBuilder& step) {
  const KvPool& pool = step.pool();
  const bool few_host_blocks = pool.host_free() * std::int64_t{10} < pool.config().host_blocks;
  std::int64_t prompt_tokens = 0;
  while (static_cast<std::int32_t>(batch_.size()) < config_.max_batch_size) {
    if (few_host_blocks ? nonempty_ == 0 : nobody_waits()) break;
    const bool set_aside = !few_host_blocks && FirstIsSetAside();
    const RequestId id = set_aside ? set_aside_.front() : first_queue().front();
    if (few_host_blocks && LongOneIsBefore(id)) break;
    const Sequence& s = step.sequence(id);
    const bool is_new = s.state == SequenceState::kWaiting;
    if (is_new && !set_aside && !s.admitted_once && RejectIfNever(step, id)) {
      PopFront();
      continue;
    }
    const std::int32_t tokens = s.decodes ? 0 : s.known - s.computed;
    if (!batch_.empty() && prompt_tokens + tokens > config_.max_tokens_per_batch) break;
    set_aside ? PopSetAside() : PopFront();
    ++requests_popped_;
    if (is_new && few_host_blocks) {
      SetAside(id, tokens > config_.max_tokens_per_batch);
      continue;
    }
    // A request that is set aside is compared with an empty step.
    CHECK(!few_host_blocks || tokens == 0);
    prompt_tokens += tokens;
    JoinBatch(id);
  }
  // With nobody else there, a new request runs however full the host is.
  if (batch_.empty() && !set_aside_.empty()) JoinBatch(PopSetAside());
}

void FastServePolicy::JoinBatch(RequestId id) {
  progress_[id].in_batch = true;
  batch_.push_back(id);
}

void FastServePolicy::SetAside(RequestId id, bool is_long) {
  Progress& progress = progress_[id];
  progress.set_aside = true;
  set_aside_.PushArrival(id, progress.place);
  if (is_long) long_set_aside_.insert(progress.place);
}

RequestId FastServePolicy::PopSetAside() {
  const RequestId id = set_aside_.PopFront();
  Progress& progress = progress_[id];
  progress.set_aside = false;
  long_set_aside_.erase(progress.place);
  return id;
}

bool FastServePolicy::FirstIsSetAside() const {
  if (set_aside_.empty()) return false;
  return nonempty_ == 0 || set_aside_.front_priority() < progress_[first_queue().front()].place;
}

bool FastServePolicy::LongOneIsBefore(RequestId id) const {
  if (batch_.empty() || long_set_aside_.empty()) return false;
  const auto next = long_set_aside_.upper_bound(progress_[batch_.front()].place);
  return next != long_set_aside_.end() && *next < progress_[id].place;
}

std::int32_t FastServePolicy::BlocksNeeded(const StepBuilder& step, RequestId id) {
  const Sequence& s = step.sequence(id);
  if (s.known <= s.blocks.capacity_tokens) return 0;
  return step.pool().BlocksFor(s.known) - s.blocks.held();
}

std::int32_t FastServePolicy::BlocksOfBatch(const StepBuilder& step) const {
  std::int32_t blocks = 0;
  for (const RequestId id : batch_) blocks += BlocksNeeded(step, id);
  return blocks;
}

std::int32_t FastServePolicy::SpareBlocks() const {
  if (!config_.proactive_offloading) return 0;
  return std::max(config_.max_batch_size, config_.num_min_free_blocks_threshold);
}

bool FastServePolicy::MakeRoom(StepBuilder& step) {
  std::int32_t needed = BlocksOfBatch(step);
  bool nobody_went = true;
  while (step.pool().free() - needed < SpareBlocks() && EvictLast(step, false)) {
    nobody_went = false;
  }
  while (step.pool().free() < needed && EvictLast(step, true)) nobody_went = false;
  while (step.pool().free() < needed) {
    CHECK(batch_.size() > 1);
    SettleRepeats();
    const RequestId last = batch_.back();
    batch_.pop_back();
    progress_[last].in_batch = false;
    if (HoldsBlocks(step.sequence(last))) Evict(step, last);
    PushFront(last);
    needed = BlocksOfBatch(step);
    nobody_went = false;
  }
  return nobody_went;
}

bool FastServePolicy::EvictLast(StepBuilder& step, bool recompute) {
  const std::optional<RequestId> last =
      on_device_.First([this](RequestId id, std::int64_t key) { return IsOnDevice(id, key); });
  if (!last) return false;
  if (!recompute && step.sequence(*last).blocks.held() > step.pool().host_free()) return false;
  Evict(step, *last);
  return true;
}

void FastServePolicy::Evict(StepBuilder& step, RequestId id) {
  Progress& progress = progress_[id];
  if (step.SwapOut(id)) {
    progress.memory = Memory::kHost;
  } else {
    step.PreemptByRecompute(id);
    progress.memory = Memory::kNone;
  }
  NotePlace(id, progress);
}

void FastServePolicy::AdmitBatch(StepBuilder& step) {
  for (const RequestId id : batch_) {
    const Sequence& s = step.sequence(id);
    if (s.state == SequenceState::kRunning) continue;
    if (s.state == SequenceState::kSwapped) {
      CHECK(step.SwapIn(id));
    } else {
      step.Admit(id);
    }
    progress_[id].memory = Memory::kDevice;
  }
}

void FastServePolicy::ScheduleBatch(StepBuilder& step) const {
  const std::span<const RequestId> batch = batch_;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    i += step.ScheduleDecodes(batch.subspan(i));
    if (i == batch.size()) break;
    const Sequence& s = step.sequence(batch[i]);
    CHECK(step.Grow(s, s.known));
    step.Schedule(s, s.known - s.computed);
  }
}

// Loads requests from the host, the first in order first, while the blocks to spare remain.
void FastServePolicy::LoadAhead(StepBuilder& step) {
  for (std::int32_t loaded = 0; loaded < config_.max_batch_size; ++loaded) {
    const std::optional<RequestId> first =
        on_host_.First([this](RequestId id, std::int64_t key) { return IsOnHost(id, key); });
    if (!first || step.pool().free() - BlocksNeeded(step, *first) < SpareBlocks()) break;
    CHECK(step.SwapIn(*first));
    Progress& progress = progress_[*first];
    progress.memory = Memory::kDevice;
    NotePlace(*first, progress);
  }
}

}  // namespace twin
