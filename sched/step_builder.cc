#include "sched/step_builder.h"

#include <algorithm>

#include "core/check.h"
#include "sched/invariant.h"

namespace twin {
namespace {

// Adds a work item to the plan's sums; `sign` -1 takes it out again.
inline void Add(StepTotals& totals, const WorkItem& item, std::int64_t sign) {
  const std::int64_t end = item.start + item.tokens;
  if (IsDecode(item)) {
    totals.decode_items += sign;
    totals.decode_context_tokens += sign * end;
  } else {
    const std::int64_t n = item.tokens;
    totals.prefill_tokens += sign * n;
    totals.prefill_items += sign;
    totals.prefill_context_tokens += sign * end;
    totals.prefill_attention_pairs += sign * (n * item.start + n * (n + 1) / 2);
  }
  if (item.emits) totals.emitting_items += sign;
  if (item.padded_tokens > 0) totals.padding_tokens += sign * (item.padded_tokens - item.tokens);
  if (item.drafts > 0) {
    totals.draft_items += sign;
    totals.draft_tokens += sign * item.drafts;
  }
}

// The maximum of the plan's totals that the item belongs to.
inline std::int64_t& ContextMax(StepTotals& totals, const WorkItem& item) {
  return IsDecode(item) ? totals.decode_context_max : totals.prefill_context_max;
}

}  // namespace

void PublishBlocks(KvPool& pool, GroupTables* groups, Sequence& s, std::int32_t tokens) {
  if (groups != nullptr) [[unlikely]] {
    groups->Publish(s.id, s.keys, tokens, s.prompt_tokens);
  } else {
    pool.Publish(s.blocks, s.keys, pool.FullBlocks(tokens));
  }
}

void ReleaseTables(GroupTables& groups, Sequence& s) {
  groups.Release(s.id);
  s.blocks.capacity_tokens = 0;
}

void StepBuilder::Admit(RequestId id) {
  Sequence& s = sequences_[id];
  CHECK(s.state == SequenceState::kWaiting);
  if (!s.admitted_once) {
    if (traits_.first_come_first_served && census_.newest_admitted > Index(id)) [[unlikely]] {
      ThrowInvariant(8, plan_.id, id, "a later request was admitted before it");
    }
    census_.newest_admitted = std::max<std::int64_t>(census_.newest_admitted, Index(id));
    s.admitted_once = true;
  }
  s.state = SequenceState::kRunning;
  // kArrived: keys and values came from another replica, which has emitted the first token.
  s.decodes = s.remote == RemoteKv::kArrived;
  s.remote = RemoteKv::kNone;
  --census_.waiting;
  ++census_.running;
  plan_.admitted.push_back(id);
  Log(StepCall::Kind::kAdmit, id);
}

bool StepBuilder::GrowTables(Sequence& s, std::int32_t tokens) {
  if (!groups_->Grow(s.id, tokens, plan_.kv)) return false;
  // No more than was asked for, so that the tables also hear of growth within a block.
  s.blocks.capacity_tokens = tokens;
  return true;
}

bool StepBuilder::TakeBlocks(Sequence& s, std::int32_t tokens) {
  if (groups_ != nullptr) [[unlikely]]
    return GrowTables(s, tokens);
  const auto held = static_cast<std::size_t>(s.blocks.held());
  if (!pool_.Grow(s.blocks, tokens)) return false;
  const std::span<const BlockId> taken = std::span(s.blocks.device).subspan(held);
  if (taken.size() == 1) {  // as for nearly all decodes
    plan_.kv.push_back({KvOperation::Kind::kAllocate, s.id, taken.front(), BlockId::kNone});
    return true;
  }
  const std::size_t first = plan_.kv.size();
  plan_.kv.resize(first + taken.size());
  KvOperation* operation = plan_.kv.data() + first;
  for (const BlockId block : taken) {
    *operation++ = {KvOperation::Kind::kAllocate, s.id, block, BlockId::kNone};
  }
  return true;
}

bool StepBuilder::Reserve(RequestId id, std::int32_t blocks) {
  if (!pool_.Reserve(sequences_[id].blocks, blocks)) return false;
  Log(StepCall::Kind::kReserve, id, blocks);
  return true;
}

void StepBuilder::Schedule(const Sequence& sequence, std::int32_t tokens,
                           std::int32_t padded_tokens) {
  Sequence& s = Mutable(sequence);
  const std::int32_t start = s.computed;
  const std::int32_t end = start + tokens;
  const std::int32_t target = s.known + s.pending;
  // One branch for all that can be wrong with an item: this runs for every token of every request.
  const bool refused = (s.state != SequenceState::kRunning) | (tokens < 1) |
                       (end > target + s.drafts) | (end > s.blocks.capacity_tokens) |
                       (s.last_step == plan_.id) |
                       ((s.in_flight > 0) & !traits_.overlaps_own_steps);
  if (refused) [[unlikely]]
    RefuseItem(s, tokens);
  const bool emits = end >= target;
  const std::int32_t drafts = std::max(0, end - target);
  const WorkItem item{s.id,
                      start,
                      tokens,
                      padded_tokens,
                      s.decodes ? Phase::kDecode : Phase::kPrefill,
                      emits,
                      static_cast<std::uint8_t>(drafts)};
  plan_.work.push_back(item);
  Add(plan_.totals, item, 1);
  std::int64_t& context_max = ContextMax(plan_.totals, item);
  context_max = std::max<std::int64_t>(context_max, end);
  s.computed = end;
  s.last_step = plan_.id;
  ++s.in_flight;
  s.pending += emits ? 1 + drafts : 0;
  s.decodes |= emits;
  s.drafts = emits && traits_.assumes_drafts ? traits_.drafts_max : 0;
  Log(StepCall::Kind::kSchedule, s.id, tokens, padded_tokens);
}

void StepBuilder::PadWithDrafts(RequestId id, std::int32_t tokens) {
  Sequence& s = sequences_[id];
  CHECK(s.state == SequenceState::kRunning && !s.decodes);
  if (tokens > traits_.drafts_max) ThrowInvariant(13, plan_.id, id, "more drafts than allowed");
  s.drafts = tokens;
}

std::size_t StepBuilder::ScheduleDecodes(std::span<const RequestId> ids,
                                         const DecodeLimits& limits) {
  const std::size_t first = plan_.work.size();
  plan_.work.resize(first + ids.size());
  const std::span<WorkItem> items = std::span(plan_.work).subspan(first);
  const std::size_t count = traits_.overlaps_own_steps ? FillDecodes<true>(ids, limits, items)
                                                       : FillDecodes<false>(ids, limits, items);
  plan_.work.resize(first + count);
  plan_.totals.decode_items += static_cast<std::int64_t>(count);
  plan_.totals.emitting_items += static_cast<std::int64_t>(count);
  if (calls_ != nullptr) [[unlikely]] {
    calls_->calls.push_back({StepCall::Kind::kScheduleDecodes, RequestId{},
                             static_cast<std::int32_t>(count), limits.computed_max,
                             limits.free_blocks_min});
    calls_->decodes.insert(calls_->decodes.end(), ids.begin(),
                           ids.begin() + static_cast<std::ptrdiff_t>(count));
  }
  return count;
}

// Runs for every token of every request.
template <bool kOverlaps>
std::size_t StepBuilder::FillDecodes(std::span<const RequestId> ids, const DecodeLimits& limits,
                                     std::span<WorkItem> items) {
  const StepId step = plan_.id;
  const bool publishes = traits_.publishes_in_steps();
  std::int64_t context_tokens = 0;
  std::int32_t context_max = 0;
  WorkItem* item = items.data();
  const RequestId* id = ids.data();
  const RequestId* end_id =
      pool_.free() < limits.free_blocks_min ? ids.data() : ids.data() + ids.size();
  for (; id != end_id; ++id) {
    Sequence& s = sequences_[*id];
    const std::int32_t end = s.computed + 1;
    if (!s.decodes || s.state != SequenceState::kRunning) break;
    if (end != s.known + s.pending || end > limits.computed_max) break;
    if (s.in_flight > 0) {
      if (!kOverlaps || s.last_step == step || s.certain_to_end()) break;
    }
    if (end > s.blocks.capacity_tokens) [[unlikely]] {
      if (!TakeBlocks(s, end)) break;
      if (pool_.free() < limits.free_blocks_min) end_id = id + 1;
    }
    *item++ = {*id, end - 1, 1, 0, Phase::kDecode, true};
    context_tokens += end;
    context_max = std::max(context_max, end);
    s.computed = end;
    s.last_step = step;
    ++s.in_flight;
    ++s.pending;
    if (publishes) PublishFull(s, s.known);
  }
  plan_.totals.decode_context_tokens += context_tokens;
  plan_.totals.decode_context_max =
      std::max<std::int64_t>(plan_.totals.decode_context_max, context_max);
  return static_cast<std::size_t>(id - ids.data());
}

void StepBuilder::RefuseItem(const Sequence& s, std::int32_t tokens) const {
  CHECK(s.state == SequenceState::kRunning);
  const std::int32_t end = s.computed + tokens;
  if (tokens < 1 || end > s.known + s.pending + s.drafts) {
    ThrowInvariant(2, plan_.id, s.id, "an item computes no token, or more than are known");
  }
  if (end > s.blocks.capacity_tokens) {
    ThrowInvariant(4, plan_.id, s.id, "its blocks do not cover the tokens to compute");
  }
  if (s.last_step == plan_.id) ThrowInvariant(5, plan_.id, s.id, "it appears twice in one step");
  ThrowInvariant(5, plan_.id, s.id, "it is still in flight in another step");
}

void StepBuilder::Unschedule(RequestId id) {
  const auto found = std::find_if(plan_.work.begin(), plan_.work.end(),
                                  [id](const WorkItem& item) { return item.request == id; });
  CHECK(found != plan_.work.end());
  Log(StepCall::Kind::kUnschedule, id);
  Sequence& s = sequences_[id];
  Add(plan_.totals, *found, -1);
  const WorkItem item = *found;
  s.computed = found->start;
  s.last_step = StepId{0};
  --s.in_flight;
  s.drafts = 0;
  if (found->emits) {
    s.pending -= 1 + found->drafts;
    if (found->phase == Phase::kDecode) s.drafts = found->drafts;
    s.decodes = found->phase == Phase::kDecode;
  }
  // Blocks were published because this step would fill them; now it will not.
  if (groups_ == nullptr) {
    pool_.Unpublish(s.blocks, s.computed / pool_.block_size());
  } else {
    groups_->Unpublish(id, s.computed);
  }
  plan_.work.erase(found);
  // A maximum cannot be taken back; it is searched again where this item may have been the longest.
  if (ContextMax(plan_.totals, item) == item.start + item.tokens) RecomputeContextMaxima(plan_);
}

void StepBuilder::PadRow(RequestId id, std::int32_t tokens) {
  plan_.padding_rows.push_back(id);
  plan_.totals.padding_tokens += tokens;
}

void StepBuilder::PreemptByRecompute(RequestId id) {
  Sequence& s = sequences_[id];
  CHECK(s.state == SequenceState::kRunning);
  if (!traits_.preempts) ThrowInvariant(7, plan_.id, id, "a reserving policy preempts");
  if (s.last_step == plan_.id) ThrowInvariant(6, plan_.id, id, "it is preempted and in the step");
  if (groups_ == nullptr) {
    pool_.Suspend(s.blocks, s.keys);
  } else {
    ReleaseTables(*groups_, s);
  }
  LogRelease(id);
  s.state = SequenceState::kWaiting;
  s.computed = 0;
  // Results of steps still in flight bring tokens, but say nothing about work issued from now on.
  s.stale_in_flight += s.pending;
  s.pending = 0;
  s.drafts = 0;
  s.decodes = false;
  ++s.preemptions;
  --census_.running;
  ++census_.waiting;
  plan_.preempted.push_back({id, Preemption::How::kRecompute});
  Log(StepCall::Kind::kPreempt, id);
}

bool StepBuilder::SwapOut(RequestId id) {
  Sequence& s = sequences_[id];
  CHECK(s.state == SequenceState::kRunning && s.in_flight == 0);
  if (!traits_.preempts) ThrowInvariant(7, plan_.id, id, "a reserving policy preempts");
  const std::size_t first = plan_.kv.size();
  for (const BlockId block : s.blocks.device) {
    plan_.kv.push_back({KvOperation::Kind::kSwapOut, id, block, BlockId::kNone});
  }
  if (!pool_.SwapOut(s.blocks)) {
    plan_.kv.resize(first);
    return false;
  }
  for (std::size_t i = 0; i < s.blocks.host.size(); ++i) {
    plan_.kv[first + i].other = s.blocks.host[i];
  }
  s.state = SequenceState::kSwapped;
  ++s.preemptions;
  --census_.running;
  ++census_.swapped;
  plan_.preempted.push_back({id, Preemption::How::kSwap});
  Log(StepCall::Kind::kSwapOut, id);
  return true;
}

bool StepBuilder::SwapIn(RequestId id) {
  Sequence& s = sequences_[id];
  CHECK(s.state == SequenceState::kSwapped);
  const std::size_t first = plan_.kv.size();
  for (const BlockId block : s.blocks.host) {
    plan_.kv.push_back({KvOperation::Kind::kSwapIn, id, BlockId::kNone, block});
  }
  if (!pool_.SwapIn(s.blocks)) {
    plan_.kv.resize(first);
    return false;
  }
  for (std::size_t i = 0; i < s.blocks.device.size(); ++i) {
    plan_.kv[first + i].block = s.blocks.device[i];
  }
  s.state = SequenceState::kRunning;
  --census_.swapped;
  ++census_.running;
  plan_.resumed.push_back(id);
  Log(StepCall::Kind::kSwapIn, id);
  return true;
}

// INV-15
void StepBuilder::CheckReason(const Sequence& s, RejectReason reason) const {
  const std::int64_t tokens = std::int64_t{s.prompt_tokens} + s.max_output_tokens;
  const std::int64_t cache_tokens = std::int64_t{pool_.usable()} * pool_.block_size();
  const std::int32_t step_tokens = traits_.tokens_per_step_max;
  const bool too_long =
      tokens > servable_tokens_ || (step_tokens > 0 && s.prompt_tokens > step_tokens);
  if (reason == RejectReason::kTooLongForModel && !too_long) {
    ThrowInvariant(15, plan_.id, s.id,
                   "the policy rejects it as too long for the model, which it is not");
  }
  if (reason == RejectReason::kTooLargeForCache && tokens <= cache_tokens) {
    ThrowInvariant(15, plan_.id, s.id,
                   "the policy rejects it as too large for the KV cache, which can hold it");
  }
}

void StepBuilder::Reject(RequestId id, RejectReason reason) {
  Sequence& s = sequences_[id];
  CHECK(s.state == SequenceState::kWaiting || s.state == SequenceState::kSwapped);
  CHECK(s.blocks.held() == 0 && s.blocks.reserved_blocks == 0);
  if (servable_tokens_ != kTokensUnchecked) CheckReason(s, reason);
  if (s.state == SequenceState::kSwapped) {
    pool_.Release(s.blocks);
    LogRelease(id);
    --census_.swapped;
  } else {
    --census_.waiting;
  }
  census_.prefill_only -= s.prefill_only ? 1 : 0;
  plan_.rejected.push_back({id, reason});
  Log(StepCall::Kind::kReject, id, static_cast<std::int32_t>(reason));
  s.state = SequenceState::kFinished;
  if (s.in_flight == 0) sequences_.Close(id);
}

void StepBuilder::Release(RequestId id) {
  Sequence& s = sequences_[id];
  CHECK(traits_.defers_release && s.state == SequenceState::kFinished);
  pool_.Release(s.blocks);
  LogRelease(id);
  plan_.released.push_back(id);
  if (s.in_flight == 0) sequences_.Close(id);
}

void StepBuilder::AwaitTransfer(RequestId id, std::int32_t cached_blocks, std::int32_t tokens) {
  Sequence& s = sequences_[id];
  CHECK(s.state == SequenceState::kWaiting && s.remote == RemoteKv::kElsewhere);
  const std::int32_t start = cached_blocks * pool_.block_size();
  CHECK(start < s.remote_tokens && s.remote_tokens <= tokens);
  if (cached_blocks > 0) {
    pool_.Attach(s.blocks, s.keys, cached_blocks);
    for (const BlockId block : s.blocks.device) {
      plan_.kv.push_back({KvOperation::Kind::kAttach, id, block, BlockId::kNone});
    }
  }
  CHECK(TakeBlocks(s, tokens));
  s.remote = RemoteKv::kArriving;
  ++s.in_flight;
  ++census_.arriving;
  reservations_.push_back({id, start});
}

void StepBuilder::ForgoTransfer(RequestId id) {
  Sequence& s = sequences_[id];
  CHECK(s.state == SequenceState::kWaiting && s.remote == RemoteKv::kElsewhere);
  s.remote = RemoteKv::kNone;
  reservations_.push_back({id, s.remote_tokens});
}

CacheHit StepBuilder::LookupPrefix(RequestId id) const {
  const Sequence& s = sequences_[id];
  if (groups_ != nullptr) [[unlikely]]
    return groups_->Lookup(s.keys, s.known - 1);
  return pool_.Lookup(s.keys, (s.known - 1) / pool_.block_size());
}

void StepBuilder::AttachPrefix(RequestId id, std::int32_t blocks) {
  Sequence& s = sequences_[id];
  CHECK(s.state == SequenceState::kRunning && s.computed == 0);
  Log(StepCall::Kind::kAttachPrefix, id, blocks);
  if (groups_ != nullptr) [[unlikely]] {
    s.computed = s.blocks.capacity_tokens = groups_->Attach(id, plan_.kv);
    plan_.hits.push_back({id, s.computed});
    return;
  }
  pool_.Attach(s.blocks, s.keys, blocks);
  for (const BlockId block : s.blocks.device) {
    plan_.kv.push_back({KvOperation::Kind::kAttach, id, block, BlockId::kNone});
  }
  s.computed = blocks * pool_.block_size();
  plan_.hits.push_back({id, s.computed});
}

void StepBuilder::AttachKept(RequestId id, std::span<const BlockId> blocks) {
  Sequence& s = sequences_[id];
  CHECK(s.state == SequenceState::kRunning && s.computed == 0);
  pool_.AttachKept(s.blocks, blocks);
  for (const BlockId block : blocks) {
    plan_.kv.push_back({KvOperation::Kind::kAttach, id, block, BlockId::kNone});
  }
  s.computed = s.blocks.capacity_tokens;
  plan_.hits.push_back({id, s.computed});
}

void StepBuilder::LogRelease(RequestId id) {
  plan_.kv.push_back({KvOperation::Kind::kRelease, id, BlockId::kNone, BlockId::kNone});
}

}  // namespace twin
