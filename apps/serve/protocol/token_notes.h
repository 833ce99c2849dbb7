// Notes of a thread of the server on the tokens that it sends.
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

// Hundreds of streams have a token at the same time. No stream waits for the notes of the streams
// before it: notes are collected, and published once the tokens have left. Used by one thread.
class TokenNotes {
 public:
  // Borrows all arguments. `on_sent` may be empty.
  TokenNotes(FrontMetrics& metrics, LiveHistory& history,
             const std::function<void(const SentTokens&)>& on_sent)
      : metrics_(metrics), history_(history), on_sent_(on_sent) {}

  // Durations are on the engine's clock.
  void AddFirstToken(Duration since_arrival) { first_tokens_.push_back(since_arrival); }
  void AddTokenGap(Duration gap) { token_gaps_.push_back(gap); }
  // Copies `due`. REQUIRES: `request` lives until Publish().
  void AddSent(std::string_view request, std::span<const TimePoint> due, TimePoint sent);

  // Passes all notes to the metrics, the history and `on_sent`, and drops them.
  void Publish();

 private:
  struct Sent {
    std::string_view request;
    std::size_t tokens = 0;  // number of its entries in due_
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
