// What a thread of the server notes of the tokens that it sends.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "apps/serve/front_options.h"
#include "apps/serve/metrics/front_metrics.h"
#include "apps/serve/page/live_history.h"
#include "core/time.h"

namespace twin::serve {

// Hundreds of streams have a token at the same time. None of them waits for the notes of those in
// front of it: notes are collected, and told once the tokens have left. Used by one thread.
class TokenNotes {
 public:
  // Borrows all arguments. `on_sent` may be empty.
  TokenNotes(FrontMetrics& metrics, LiveHistory& history,
             const std::function<void(const SentTokens&)>& on_sent)
      : metrics_(metrics), history_(history), on_sent_(on_sent) {}

  // The engine's time.
  void AddFirstToken(Duration since_arrival) { first_tokens_.push_back(since_arrival); }
  void AddTokenGap(Duration gap) { token_gaps_.push_back(gap); }
  // Copies `due`. REQUIRES: `request` lives until Publish().
  void AddSent(std::string_view request, std::span<const TimePoint> due, TimePoint sent);

  // Passes everything on.
  void Publish();

 private:
  struct Sent {
    std::string_view request;
    std::size_t tokens = 0;  // the next ones of due_
    TimePoint sent;
  };

  FrontMetrics& metrics_;
  LiveHistory& history_;
  const std::function<void(const SentTokens&)>& on_sent_;
  std::vector<Duration> first_tokens_;
  std::vector<Duration> token_gaps_;
  std::vector<Sent> sent_;
  std::vector<TimePoint> due_;  // of sent_
};

}  // namespace twin::serve
