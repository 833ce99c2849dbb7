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
  RequireAtLeast("fastserve.max_batch_size", max_batch_size, 1);
  RequireAtLeast("fastserve.max_tokens_per_batch", max_tokens_per_batch, 1);
  RequireAtLeast("fastserve.max_model_len", max_model_len, 0);
  RequireField(num_queues >= 1 && num_queues <= 64, "fastserve.num_queues", num_queues,
               "must be 1 to 64");
  RequireRatio("fastserve.threshold", threshold);
  RequireAtLeast("fastserve.starvation_period", starvation_period, 1);
  RequireAtLeast("fastserve.num_min_free_blocks_threshold", num_min_free_blocks_threshold, 0);
  RequireTime("fastserve.base_quantum_s", base_quantum, std::chrono::seconds(1'000));
  RequireTime("fastserve.prefill_s", prefill_time, std::chrono::seconds(1'000));
  RequireTime("fastserve.prefill_token_s", prefill_token_time, std::chrono::seconds(1));
  RequireTime("fastserve.starvation_threshold_s", starvation_threshold,
              std::chrono::seconds(1'000'000));
}

void FastServeConfig::ResolveContext(std::int32_t model_tokens) {
  if (max_model_len == 0) max_model_len = model_tokens;
}

void FastServeConfig::ValidateContext(std::int32_t model_tokens) const {
  RequireWithinModel("fastserve.max_model_len", max_model_len, model_tokens);
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
  TakeFirstPlace(progress_[id]);
  Return(id);
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
  if (std::erase(batch_, sequence.id) == 0) {
    const std::int32_t level = progress_[sequence.id].level;
    queue(level).Erase(sequence.id);
    if (queue(level).empty()) nonempty_ &= ~LevelBit(level);
  }
  std::erase(resident_, sequence.id);
  std::erase(swapped_, sequence.id);
  progress_.Close(sequence.id);
}

bool FastServePolicy::InBatch(RequestId id) const {
  return std::find(batch_.begin(), batch_.end(), id) != batch_.end();
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

// What a step has computed is known when the next one begins: only ContinueDecodeRun() can tell
// whether the batch repeats.
std::optional<DecodeLimits> FastServePolicy::DecodeRunLimits() const {
  return repeats_.prepared && nonempty_ == 0 ? std::optional(DecodeLimits{}) : std::nullopt;
}

bool FastServePolicy::ContinueDecodeRun(StepBuilder& step) {
  if (promotes() || !FitsAhead(step) || !RepeatBatch(step.now())) return false;
  planned_at_ = step.now();
  ++steps_;
  return true;
}

bool FastServePolicy::FitsAhead(const StepBuilder& step) const {
  return step.pool().free() - static_cast<std::int32_t>(batch_.size()) >= SpareBlocks();
}

bool FastServePolicy::RepeatBatch(TimePoint now) {
  if (nonempty_ != 0) return false;
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
    PushFront(id);
  }
  batch_.clear();
}

void FastServePolicy::PromoteStarving(TimePoint now) {
  set_aside_.clear();
  while (nonempty_ != 0) set_aside_.push_back(PopFront());
  const auto starves = [&](RequestId id) {
    return now - progress_[id].idle_since >= config_.starvation_threshold;
  };
  for (auto id = set_aside_.rbegin(); id != set_aside_.rend(); ++id) {
    if (!starves(*id)) Return(*id);
  }
  for (const RequestId id : set_aside_) {
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
  set_aside_.clear();
  while (nonempty_ != 0 && static_cast<std::int32_t>(batch_.size()) < config_.max_batch_size) {
    const RequestId id = first_queue().front();
    const Sequence& s = step.sequence(id);
    const bool is_new = s.state == SequenceState::kWaiting;
    if (is_new && !s.admitted_once && RejectIfNever(step, id)) {
      PopFront();
      continue;
    }
    const std::int32_t tokens = s.decodes ? 0 : s.known - s.computed;
    if (!batch_.empty() && prompt_tokens + tokens > config_.max_tokens_per_batch) break;
    PopFront();
    if (is_new && few_host_blocks) {
      set_aside_.push_back(id);
      continue;
    }
    prompt_tokens += tokens;
    batch_.push_back(id);
  }
  ReturnSetAside();
}

// With nobody else there, a new request runs however full the host is.
void FastServePolicy::ReturnSetAside() {
  const std::size_t taken = batch_.empty() && !set_aside_.empty() ? 1 : 0;
  if (taken == 1) batch_.push_back(set_aside_.front());
  for (std::size_t i = set_aside_.size(); i > taken; --i) Return(set_aside_[i - 1]);
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
    if (HoldsBlocks(step.sequence(last))) Evict(step, last);
    PushFront(last);
    needed = BlocksOfBatch(step);
    nobody_went = false;
  }
  return nobody_went;
}

bool FastServePolicy::EvictLast(StepBuilder& step, bool recompute) {
  const RequestId* last = nullptr;
  for (const RequestId& id : resident_) {
    if (InBatch(id)) continue;
    if (last == nullptr || progress_[*last].place < progress_[id].place) last = &id;
  }
  if (last == nullptr) return false;
  if (!recompute && step.sequence(*last).blocks.held() > step.pool().host_free()) return false;
  Evict(step, *last);
  return true;
}

void FastServePolicy::Evict(StepBuilder& step, RequestId id) {
  if (step.SwapOut(id)) {
    swapped_.push_back(id);
  } else {
    step.PreemptByRecompute(id);
  }
  std::erase(resident_, id);
}

void FastServePolicy::AdmitBatch(StepBuilder& step) {
  for (const RequestId id : batch_) {
    const Sequence& s = step.sequence(id);
    if (s.state == SequenceState::kRunning) continue;
    if (s.state == SequenceState::kSwapped) {
      CHECK(step.SwapIn(id));
      std::erase(swapped_, id);
    } else {
      step.Admit(id);
    }
    resident_.push_back(id);
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

// The first of those who are on the host, while the blocks to spare remain.
void FastServePolicy::LoadAhead(StepBuilder& step) {
  std::sort(swapped_.begin(), swapped_.end(),
            [this](RequestId a, RequestId b) { return progress_[a].place < progress_[b].place; });
  std::size_t loaded = 0;
  while (loaded < swapped_.size() && loaded < static_cast<std::size_t>(config_.max_batch_size)) {
    const RequestId id = swapped_[loaded];
    if (step.pool().free() - BlocksNeeded(step, id) < SpareBlocks()) break;
    CHECK(step.SwapIn(id));
    resident_.push_back(id);
    ++loaded;
  }
  swapped_.erase(swapped_.begin(), swapped_.begin() + static_cast<std::ptrdiff_t>(loaded));
}

}  // namespace twin
