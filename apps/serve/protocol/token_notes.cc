#include "apps/serve/protocol/token_notes.h"

namespace twin::serve {

void TokenNotes::AddSent(std::string_view request, std::span<const TimePoint> due, TimePoint sent) {
  sent_.push_back({request, due.size(), sent});
  due_.insert(due_.end(), due.begin(), due.end());
}

void TokenNotes::Publish() {
  if (!first_tokens_.empty() || !token_gaps_.empty()) {
    metrics_.ObserveOutputs(first_tokens_, token_gaps_);
    history_.AddOutputs(first_tokens_, token_gaps_);
    first_tokens_.clear();
    token_gaps_.clear();
  }
  std::span<const TimePoint> due = due_;
  for (const Sent& one : sent_) {
    const auto tokens = due.first(one.tokens);
    due = due.subspan(one.tokens);
    metrics_.ObserveSent(tokens, one.sent);
    if (on_sent_) on_sent_({one.request, tokens, one.sent});
  }
  sent_.clear();
  due_.clear();
}

}  // namespace twin::serve
