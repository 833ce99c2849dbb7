// The last minutes of a service, second by second, for the live page.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "apps/serve/service/service.h"
#include "core/time.h"

namespace twin::serve {

// A thread of its own closes a second of the wall clock and reads the service's state, so that
// neither steps nor requests wait for the page.
class LiveHistory {
 public:
  static constexpr std::size_t kSeconds = 300;
  // Per second and series: enough for a p99 over some seconds, and bounded.
  static constexpr std::size_t kSamplesPerSecond = 64;

  // `service` must outlive the history.
  explicit LiveHistory(const run::Service& service);
  ~LiveHistory();
  LiveHistory(const LiveHistory&) = delete;
  LiveHistory& operator=(const LiveHistory&) = delete;

  // Times of outputs, on the engine's clock: of first tokens, since the arrival at the front; of
  // later ones, since the output before.
  void AddOutputs(std::span<const Duration> first_tokens, std::span<const Duration> token_gaps);
  void OnStep(const run::StepListener::Step& step);

  // Closes the current second, as the thread does.
  void CloseSecond();
  // Everything that the page draws: one JSON object.
  [[nodiscard]] std::string JsonText() const;

 private:
  // A bounded sample of a second's values, each value equally likely to be in it.
  struct Sample {
    std::vector<float> values;
    std::uint64_t count = 0;
    void Add(double value);
  };
  struct Second {
    run::ServiceState state;
    std::int64_t steps = 0;
    std::int64_t prefill_tokens = 0;
    std::int64_t decode_tokens = 0;
    std::int64_t requests = 0;  // summed over the steps
    Sample first_token;
    Sample token_gap;
  };

  const run::Service& service_;
  mutable std::mutex mutex_;  // guards the members below
  std::deque<Second> seconds_;
  Second current_;
  bool ended_ = false;
  std::condition_variable end_;
  std::thread thread_;
};

}  // namespace twin::serve
