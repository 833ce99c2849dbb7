#include "front/protocol/token_queue.h"

#include <algorithm>
#include <utility>

namespace twin::front {

TokenQueue::TokenQueue(Last last, std::size_t bytes_max, std::function<void()> wake)
    : last_(std::move(last)), bytes_max_(bytes_max), wake_(std::move(wake)) {}

void TokenQueue::OnToken(const lab::GeneratedToken& token) {
  {
    const std::lock_guard lock(mutex_);
    ++told_;
    const bool ends = told_ > last_.min_tokens &&
                      std::ranges::find(last_.tokens, token.token) != last_.tokens.end();
    if (ends || told_ == last_.max_tokens) {
      held_ = token;
      return;
    }
    bytes_ += sizeof(token) + token.alternatives.size() * sizeof(lab::TokenLogprob);
    if (bytes_ > bytes_max_) {
      if (std::exchange(waiting_.overflowed, true)) return;
    } else {
      waiting_.tokens.push_back(token);
      if (waiting_.tokens.size() > 1) return;  // woken already
    }
  }
  wake_();
}

void TokenQueue::OnEnd(const lab::GenerationEnd& end) {
  {
    const std::lock_guard lock(mutex_);
    if (held_) waiting_.tokens.push_back(std::move(*held_));
    held_.reset();
    waiting_.end = end;
  }
  std::exchange(wake_, nullptr)();
}

bool TokenQueue::overflowed() {
  const std::lock_guard lock(mutex_);
  return waiting_.overflowed;
}

TokenQueue::Taken TokenQueue::Take() {
  const std::lock_guard lock(mutex_);
  bytes_ = 0;
  Taken taken = std::move(waiting_);
  waiting_ = {};
  return taken;
}

}  // namespace twin::front
