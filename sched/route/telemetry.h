// A router's knowledge of its replicas, and how old it is.
//
// Two sources, as in real routers: the router knows at once which requests it has sent; everything
// else is reported by replicas, and a report takes a delay. With a delay the router acts on old
// news, and several requests may follow each other to a replica that only looked idle (herding).
#pragma once

#include <cstdint>

#include "core/time.h"
#include "sched/request.h"
#include "sched/route/delayed_news.h"
#include "sched/route/router.h"

namespace twin {

// Changes of a replica's state in one instant.
struct LoadReport {
  std::int32_t replica = 0;
  std::int32_t requests_left = 0;
  std::int32_t answered = 0;
  std::int64_t prompt_tokens_computed = 0;
  std::int64_t blocks = 0;  // more, or less, than reported before

  [[nodiscard]] bool empty() const {
    return requests_left == 0 && answered == 0 && prompt_tokens_computed == 0 && blocks == 0;
  }
};

// Memory: constant per report of the latest `delay`.
class Telemetry {
 public:
  // block_size: tokens; 0 = nobody reads blocks.
  Telemetry(std::int32_t replicas, Duration delay, std::int32_t block_size);

  // Takes in the reports of instants up to now - delay. Call it once per instant, before its
  // requests are sent: they all see the same news.
  // REQUIRES: `now` never decreases, here and in the other calls.
  void Receive(TimePoint now);

  [[nodiscard]] const ReplicaLoads& loads() const { return loads_; }

  // A request is sent to the replica.
  void Send(TimePoint now, std::int32_t replica, const Request& request);

  // The replica's state has changed in the instant `now`, whose requests have been sent.
  void Report(TimePoint now, const LoadReport& report);

  // In place of Report, where replicas report one after the other: as in delayed_news.h.
  void ReportAhead(TimePoint now, const LoadReport& report) { reports_.Send(now, report); }
  void EndWindow() { reports_.EndWindow(); }
  [[nodiscard]] Duration delay() const { return reports_.delay(); }

 private:
  ReplicaLoads loads_;
  std::int32_t block_size_;
  DelayedNews<LoadReport> reports_;
};

}  // namespace twin
