// How a prefill batch is built.
#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "sched/policy/sglang.h"
#include "sched/step_builder.h"

namespace twin {

// False if there is none; then the running requests may decode.
bool SglangPolicy::PlanPrefill(StepBuilder& step) {
  const bool preempts = config_.preempts_by_priority();
  if (preempts || windows_ != nullptr || running_.empty()) full_ = false;
  if ((full_ || waiting_.empty()) && !chunked_) return false;
  const auto rows = static_cast<std::size_t>(config_.max_running_requests);
  if (running_.size() >= rows && !chunked_ && !preempts) {
    full_ = true;
    return false;
  }
  if (!waiting_.empty()) waiting_.Sort(step, requests_, *cache_);
  OpenPrefill(step);
  if (chunked_) ContinueChunked(step);
  OfferWaiting(step);
  waiting_.PopFront(step, prefill_.admitted);
  for (const RequestId id : prefill_.preempted) Requeue(step, id);
  return Issue(step);
}

void SglangPolicy::OpenPrefill(const StepBuilder& step) {
  const std::int64_t mixed =
      config_.enable_mixed_chunk ? static_cast<std::int64_t>(running_.size()) : 0;
  prefill_.batch.clear();
  prefill_.preempted.clear();
  prefill_.admitted = 0;
  prefill_.futures.clear();
  prefill_.lists_futures = false;
  prefill_.input_left = config_.max_prefill_tokens - mixed;
  prefill_.chunk_left = config_.chunked_prefill_size - mixed;
  prefill_.charged = mixed;
  prefill_.window_charged = 0;
  double future = 0;
  for (const RequestId id : running_) future += ExpectedFutureTokens(step.sequence(id));
  prefill_.future = static_cast<double>(mixed) + future;
}

void SglangPolicy::ContinueChunked(StepBuilder& step) {
  const Sequence& s = step.sequence(*chunked_);
  const std::int64_t rest = s.known - s.computed;
  std::int64_t room = std::min(prefill_.chunk_left, static_cast<std::int64_t>(TotalLeft(step)));
  if (windows_ != nullptr) {
    room = std::min(room, WindowLeft() - page_);
    parked_ = room <= 0;
  } else if (room <= 0) {
    room = prefill_.chunk_left;
  }
  // The original fails where the cache has no room for the chunk.
  const std::int64_t held = std::int64_t{s.blocks.capacity_tokens} - s.computed;
  const std::int64_t tokens = std::min({rest, room, Available(step) + held});
  if (tokens <= 0) return;
  prefill_.batch.push_back({*chunked_, static_cast<std::int32_t>(tokens)});
  const bool last = tokens == rest;
  Charge(tokens, last ? Clipped(requests_[*chunked_].limit) : 0);
  if (last) chunked_.reset();
}

void SglangPolicy::OfferWaiting(StepBuilder& step) {
  while (prefill_.admitted < waiting_.size()) {
    const RequestId id = waiting_.At(step, prefill_.admitted);
    if (StateOf(step) == State::kOther) return;
    const auto rows = static_cast<std::size_t>(config_.max_running_requests);
    if (prefill_.batch.size() + running_.size() >= rows) full_ = true;
    if (full_ && (!config_.preempts_by_priority() || !PreemptFor(step, id))) return;
    const std::size_t before = prefill_.batch.size();
    State state = TryAdmit(step, id);
    if (prefill_.batch.size() > before) ++prefill_.admitted;
    if (state == State::kNoToken) full_ = !prefill_.batch.empty() || !running_.empty();
    if (state != State::kContinue) return;
  }
}

SglangPolicy::State SglangPolicy::TryAdmit(StepBuilder& step, RequestId id) {
  const Sequence& s = step.sequence(id);
  SglangRequest& request = requests_[id];
  TreeHold hit = cache_->Match(s, s.known - 1);
  request.hit_tokens = static_cast<std::int32_t>(hit.blocks * page_);
  request.prepared = s.known;
  const auto most = static_cast<std::size_t>(config_.prefill_max_requests);
  if (most > 0 && prefill_.batch.size() >= most) return State::kOther;
  if (s.ignore_eos && !cache_->enabled()) return OfferIgnoringEnd(step, id);
  std::int64_t tokens = s.known - request.hit_tokens;
  const std::int64_t output = std::max(request.limit - Output(s), 0);
  const auto total = static_cast<double>(tokens + Clipped(output) + page_);
  cache_->Lock(hit);
  const double left = TotalLeft(step);
  State state = State::kContinue;
  bool divided = false;
  std::int64_t chunk_most = prefill_.chunk_left;
  if (!(total < left)) {
    state = State::kNoToken;
  } else if (windows_ != nullptr && !FitsWindow(tokens, Clipped(output), chunk_most)) {
    state = State::kNoToken;
  } else if (!chunks()) {
    if (!prefill_.batch.empty() && RoundUp(tokens) >= prefill_.input_left) state = State::kOther;
  } else if (RoundUp(tokens) > chunk_most) {
    const std::int64_t end = request.hit_tokens + chunk_most / page_ * page_;
    tokens = end / page_ * page_ - request.hit_tokens;
    divided = true;
    // At most one prompt is divided at a time, also while it is parked.
    if (prefill_.chunk_left <= 0 || tokens <= 0 || chunked_) state = State::kOther;
  }
  if (state != State::kContinue) {
    cache_->Unlock(hit);
    return state;
  }
  Join(step, id, hit, static_cast<std::int32_t>(tokens));
  Charge(tokens, divided ? 0 : Clipped(request.limit));
  if (divided) chunked_ = id;
  return StateOf(step);
}

// Without a tree, a request that runs to its limit is admitted only if nobody runs out of memory
// when all in the batch run to theirs, one after the other.
SglangPolicy::State SglangPolicy::OfferIgnoringEnd(StepBuilder& step, RequestId id) {
  const Sequence& s = step.sequence(id);
  std::int64_t tokens = s.known;
  const std::int64_t need = RoundUp(tokens) + page_;
  const std::int64_t left = Available(step) - prefill_.charged;
  if (static_cast<double>(need) > std::min(static_cast<double>(left), TotalLeft(step))) {
    return State::kNoToken;
  }
  if (windows_ == nullptr) {
    if (RunsOutOfMemory(step, s, left - need)) return State::kNoToken;
  } else {
    const std::int64_t output = Clipped(std::max(requests_[id].limit - Output(s), 0));
    if (WindowNeed(tokens, output) > WindowLeft()) return State::kNoToken;
  }
  const bool divided = chunks() && tokens > prefill_.chunk_left;
  if (divided) {
    if (prefill_.chunk_left <= 0) return State::kOther;
    tokens = prefill_.chunk_left;
  }
  Join(step, id, {}, static_cast<std::int32_t>(tokens));
  Charge(tokens, divided ? 0 : Clipped(requests_[id].limit));
  if (divided) chunked_ = id;
  return StateOf(step);
}

// Whether memory ends before the requests do, of which `candidate` is a further one. `left`:
// tokens.
bool SglangPolicy::RunsOutOfMemory(const StepBuilder& step, const Sequence& candidate,
                                   std::int64_t left) {
  ListFutures(step, candidate);
  auto free = static_cast<double>(left);
  for (std::size_t i = 0; i < prefill_.futures.size(); ++i) {
    const auto alive = static_cast<double>(prefill_.futures.size() - i);
    if (free - prefill_.futures[i].left * alive <= alive) return true;
    free += static_cast<double>(prefill_.futures[i].held);
  }
  return false;
}

// Enters the candidate into the list of what requests will still take and give back, by the
// former.
void SglangPolicy::ListFutures(const StepBuilder& step, const Sequence& candidate) {
  std::vector<Prefill::FutureOf>& list = prefill_.futures;
  const auto future = [&](const Sequence& s) {
    const double share = s.ignore_eos ? 1.0 : ratio_.value();
    return Prefill::FutureOf{
        static_cast<double>(requests_[s.id].limit) * share - static_cast<double>(Output(s)),
        s.known};
  };
  if (prefill_.lists_futures) {
    const Prefill::FutureOf entry = future(candidate);
    if (entry.left <= 0) return;
    auto place = std::find_if(list.begin(), list.end(), [&](const Prefill::FutureOf& other) {
      return entry.left <= other.left;
    });
    // An entry that belongs at the end goes before the last one, as in the original.
    if (place == list.end() && !list.empty()) --place;
    list.insert(place, entry);
    return;
  }
  prefill_.lists_futures = true;
  const auto append = [&](const Sequence& s) {
    const Prefill::FutureOf entry = future(s);
    if (entry.left > 0) list.push_back(entry);
  };
  append(candidate);
  for (const RequestId id : running_) append(step.sequence(id));
  for (const Item& item : prefill_.batch) append(step.sequence(item.id));
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.left < b.left; });
}

// REQUIRES: the path of the hit is locked.
void SglangPolicy::Join(StepBuilder& step, RequestId id, const TreeHold& hit, std::int32_t tokens) {
  step.Admit(id);
  if (cache_->enabled()) step.AttachKept(id, cache_->BlocksOf(hit));
  requests_[id].hold = hit;
  prefill_.batch.push_back({id, tokens});
}

void SglangPolicy::Charge(std::int64_t tokens, std::int64_t output) {
  const std::int64_t rounded = RoundUp(tokens);
  if (windows_ != nullptr) prefill_.window_charged += WindowNeed(rounded, output);
  prefill_.future += static_cast<double>(rounded + page_ + output);
  prefill_.charged += rounded + page_;
  prefill_.input_left -= rounded;
  prefill_.chunk_left -= rounded;
}

SglangPolicy::State SglangPolicy::StateOf(const StepBuilder& step) const {
  if (!(TotalLeft(step) > 0 && Available(step) - prefill_.charged > 0)) return State::kNoToken;
  if (windows_ != nullptr && WindowLeft() <= 0) return State::kNoToken;
  if (prefill_.input_left <= 0 || (chunks() && prefill_.chunk_left <= 0)) return State::kOther;
  return State::kContinue;
}

double SglangPolicy::TotalLeft(const StepBuilder& step) const {
  return static_cast<double>(Available(step)) - prefill_.future;
}

// Takes the memory of running requests that are less important by more than the threshold, if that
// is enough for the candidate.
bool SglangPolicy::PreemptFor(StepBuilder& step, RequestId id) {
  const Sequence& s = step.sequence(id);
  const SglangRequest& candidate = requests_[id];
  ranks_.clear();
  for (const RequestId running : running_) {
    ranks_.push_back({.importance = config_.Importance(step.sequence(running).priority),
                      .queued_at = requests_[running].queued_at,
                      .place = ranks_.size(),
                      .id = running});
  }
  std::sort(ranks_.begin(), ranks_.end(), [](const Rank& a, const Rank& b) {
    return a.importance != b.importance ? a.importance < b.importance : a.queued_at > b.queued_at;
  });
  double missing =
      static_cast<double>(candidate.prepared - candidate.hit_tokens + Clipped(candidate.limit)) -
      TotalLeft(step);
  std::size_t victims = 0;
  for (const Rank& rank : ranks_) {
    const std::int64_t difference = config_.Importance(s.priority) - rank.importance;
    if (difference <= config_.priority_scheduling_preemption_threshold) break;
    ++victims;
    missing -= ExpectedFutureTokens(step.sequence(rank.id));
    if (missing <= 0) break;
  }
  if (victims == 0 || missing > 0) return false;
  ranks_.resize(victims);
  // In the order of the running batch.
  std::sort(ranks_.begin(), ranks_.end(),
            [](const Rank& a, const Rank& b) { return a.place < b.place; });
  std::size_t left = running_.size();
  const auto first = static_cast<std::ptrdiff_t>(prefill_.preempted.size());
  for (const Rank& rank : ranks_) {
    prefill_.future -= ExpectedFutureTokens(step.sequence(rank.id));
    Release(step, rank.id, --left);
    std::erase(running_, rank.id);
    prefill_.preempted.push_back(rank.id);
  }
  std::sort(prefill_.preempted.begin() + first, prefill_.preempted.end());
  return true;
}

bool SglangPolicy::Issue(StepBuilder& step) {
  if (windows_ != nullptr) FreeBehindChunks(step);
  std::int64_t tokens = 0;
  for (const Item& item : prefill_.batch) tokens += item.tokens;
  const auto pages = static_cast<std::int64_t>(prefill_.batch.size()) * page_;
  static_cast<void>(MakeFree(step, page_ > 1 ? tokens + pages : tokens));
  for (const Item& item : prefill_.batch) {
    if (Take(step, item)) {
      step.Schedule(step.sequence(item.id), item.tokens);
      last_batch_.push_back(item.id);
    } else {
      PutBack(step, item.id);
    }
  }
  if (last_batch_.empty()) return false;
  if (config_.enable_mixed_chunk && chunks() && !running_.empty()) MixDecodes(step);
  return true;
}

// Takes the item's memory; false, with nothing changed, if too little is free.
bool SglangPolicy::Take(StepBuilder& step, const Item& item) {
  const Sequence& s = step.sequence(item.id);
  const std::int32_t end = s.computed + item.tokens;
  if (windows_ == nullptr) return step.Grow(s, end);
  const std::int32_t pages = step.pool().BlocksFor(end) - s.blocks.held();
  if (pages > windows_->free_pages() || !step.Grow(s, end)) return false;
  SglangRequest& request = requests_[item.id];
  windows_->TakePages(s, request.hold);
  ++request.prefills;
  return true;
}

// The cache has no room for what was admitted, which the original takes for an error.
void SglangPolicy::PutBack(StepBuilder& step, RequestId id) {
  if (step.sequence(id).computed > static_cast<std::int32_t>(requests_[id].hold.blocks * page_)) {
    chunked_ = id;
    return;
  }
  if (chunked_ == id) chunked_.reset();
  Release(step, id, 0);
  Requeue(step, id);
}

// The running requests ride along if they fit; otherwise they sit out.
void SglangPolicy::MixDecodes(StepBuilder& step) {
  TakeOutEnding(step);
  if (running_.empty() || !DecodesFit(step, running_)) return;
  IssueDecodes(step);
  last_batch_.insert(last_batch_.end(), running_.begin(), running_.end());
  running_.clear();
}

}  // namespace twin
