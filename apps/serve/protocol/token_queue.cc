#include "apps/serve/protocol/token_queue.h"

#include <algorithm>
#include <utility>

namespace twin::serve {
namespace {

constexpr std::size_t kTokensKept = 16;

}  // namespace

TokenQueue::TokenQueue(Last last, std::size_t bytes_max, std::function<void()> wake)
    : last_(std::move(last)), bytes_max_(bytes_max), wake_(std::move(wake)) {}

void TokenQueue::OnToken(const run::GeneratedToken& token) {
  {
    const std::lock_guard lock(mutex_);
    ++told_;
    const bool ends = told_ > last_.min_tokens &&
                      std::ranges::find(last_.tokens, token.token) != last_.tokens.end();
    if (ends || told_ == last_.max_tokens) {
      held_ = token;
      return;
    }
    bytes_ += sizeof(token) + token.alternatives.size() * sizeof(run::AlternativeToken);
    if (bytes_ > bytes_max_) {
      if (std::exchange(waiting_.overflowed, true)) return;
    } else {
      waiting_.tokens.push_back(token);
      if (waiting_.tokens.size() > 1) return;  // woken already
    }
  }
  wake_();
}

void TokenQueue::OnEnd(const run::GenerationEnd& end) {
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

void TokenQueue::Take(Taken& taken) {
  taken.Clear();
  const std::lock_guard lock(mutex_);
  bytes_ = 0;
  std::swap(taken, waiting_);
}

void TokenQueue::Taken::Clear() {
  // The memory goes from queue to queue. A slow reader's is freed: otherwise all queues would grow
  // as large in the end.
  if (tokens.capacity() > kTokensKept) {
    tokens = {};
  } else {
    tokens.clear();
  }
  end.reset();
  overflowed = false;
}

}  // namespace twin::serve
