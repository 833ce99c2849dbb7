// The parts of SglangPolicy that a window pool beside the pool of all tokens needs.
#include <algorithm>
#include <utility>
#include <vector>

#include "sched/policy/sglang.h"
#include "sched/step_builder.h"

namespace twin {

// Tokens that a request takes of the window pool at most, for `tokens` tokens of its prompt and an
// output of `output` tokens: what a chunk has before the window, the window, and a page.
std::int64_t SglangPolicy::WindowNeed(std::int64_t tokens, std::int64_t output) const {
  const std::int64_t window = config_.window;
  const std::int64_t chunk = chunks() ? std::min(tokens, prefill_.chunk_left) : tokens;
  return std::max<std::int64_t>(chunk - window, 0) + std::min(tokens + output, window) + page_;
}

// Tokens that are left of the window pool. What running requests will take is not counted.
std::int64_t SglangPolicy::WindowLeft() const {
  const std::int64_t pages = std::int64_t{windows_->free_pages()} + windows_->evictable_pages();
  return pages * page_ - prefill_.window_charged;
}

// Where the need would never fit, but a smaller chunk does, lowers `chunk_most` to that.
bool SglangPolicy::FitsWindow(std::int64_t tokens, std::int64_t output,
                              std::int64_t& chunk_most) const {
  const std::int64_t need = WindowNeed(RoundUp(tokens), output);
  if (need < WindowLeft()) return true;
  if (need < windows_->pages() * page_ || !chunks()) return false;
  const std::int64_t room = std::max<std::int64_t>(WindowLeft(), 0) - WindowNeed(0, output);
  if (room < page_) return false;
  chunk_most = std::min(chunk_most, room / page_ * page_);
  return true;
}

// Without a tree. With one, pages go when the chunk before enters it. Where steps overlap, the
// chunk before the latest one may still be computed.
void SglangPolicy::FreeBehindChunks(const StepBuilder& step) {
  if (cache_->enabled()) return;
  for (const Item& item : prefill_.batch) {
    const Sequence& s = step.sequence(item.id);
    SglangRequest& request = requests_[item.id];
    std::int32_t tokens = s.computed;
    if (config_.overlap) {
      if (request.prefills < 2) continue;
      tokens -= std::max(config_.chunked_prefill_size, 0);
    }
    windows_->FreeBehind(s, request.hold, tokens, 1);
  }
}

// The first decode after a prefill frees nothing: where steps overlap, that may still run.
void SglangPolicy::FreeBehindDecodes(const StepBuilder& step) {
  const std::int32_t interval = std::max(config_.swa_eviction_interval, 1);
  for (const RequestId id : running_) {
    const Sequence& s = step.sequence(id);
    SglangRequest& request = requests_[id];
    const std::int32_t tokens = s.known - 1;
    if (request.decodes >= 1 && tokens - config_.window >= request.hold.window.freed + interval) {
      windows_->FreeBehind(s, request.hold, tokens, 1);
    }
    if (config_.release_prefill_swa && request.decodes >= config_.window) {
      windows_->UnlockPassedWindow(request.hold);
    }
  }
}

void SglangPolicy::TakeDecodePages(const StepBuilder& step) {
  for (const RequestId id : running_) {
    SglangRequest& request = requests_[id];
    windows_->TakePages(step.sequence(id), request.hold);
    ++request.decodes;
  }
}

// Where nobody runs and nothing was planned, the next call decides the same, unless another request
// comes first then: the original waits for ever. After window_patience the request in whose way the
// pools are is refused: the divided one, which holds memory, or the first one waiting.
void SglangPolicy::RefuseWhatCannotRun(StepBuilder& step) {
  const bool runs = !running_.empty() || !last_batch_.empty() || !taken_out_.empty() ||
                    (chunked_ && step.sequence(*chunked_).in_flight > 0);
  if (runs || !ended_.empty() || !step.plan().empty() || (!chunked_ && waiting_.empty())) {
    refuses_at_ = kTimeNever;
    return;
  }
  if (refuses_at_ == kTimeNever) refuses_at_ = step.now() + config_.window_patience;
  if (step.now() < refuses_at_) return;
  refuses_at_ = kTimeNever;
  if (chunked_) {
    Abort(step, *std::exchange(chunked_, std::nullopt));
    return;
  }
  const RequestId id = waiting_.At(step, 0);
  waiting_.PopFront(step, 1);
  step.Reject(id, RejectReason::kTooLargeForCache);
  requests_.Close(id);
}

std::optional<WindowPoolState> SglangPolicy::window_pool() const {
  if (windows_ == nullptr) return std::nullopt;
  return WindowPoolState{.usable = windows_->pages(),
                         .free = windows_->free_pages(),
                         .cached = windows_->evictable_pages(),
                         .evicted = windows_->evicted_pages()};
}

bool SglangPolicy::Audit(const SequenceTable& sequences) const {
  if (windows_ == nullptr) return true;
  std::vector<WindowedRadixCache::Held> held;
  sequences.ForEach([&](RequestId id, const Sequence& s) {
    if (requests_.contains(id)) held.push_back({&s, &requests_[id].hold});
  });
  return windows_->Audit(held);
}

}  // namespace twin
