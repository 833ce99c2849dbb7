// One simulated run as the judge sees it: what became of every request that was offered.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "run/deployment.h"
#include "run/record/run_listener.h"
#include "run/run_control.h"

namespace twin {
class RunObserver;
}

namespace twin::run {

// Shorter times count as this in logarithms: they must not reward the last microsecond.
inline constexpr double kShortestSeconds = 1e-3;

// Names a request in runs of any policy. Its id does not: in sessions the policy decides when the
// next turn comes, and so which request has which id.
struct RequestName {
  std::uint32_t tenant = 0;
  std::uint64_t session = 0;  // 0: none
  std::int32_t turn = 0;      // of the session; without one, among all such requests of the tenant

  auto operator<=>(const RequestName&) const = default;
};

// Times of a request in seconds, at the client.
struct JudgedRequest {
  RequestName name{};
  bool offered = false;
  RequestStatus status = RequestStatus::kWaiting;
  RejectReason reject_reason{};
  double ttft_s = 0;
  double e2e_s = 0;
  double longest_gap_s = 0;
  std::int32_t prompt_tokens = 0;
  std::int32_t output_tokens = 0;  // that it was given
};

struct JudgedRun {
  std::string digest;
  std::string saturated;                // as in the summary: yes, no, undecided
  std::vector<JudgedRequest> requests;  // by id
  double end_s = 0;
  std::int64_t offered = 0;
  std::int64_t largest_step_tokens = 0;
  std::int64_t largest_step_sequences = 0;
  // Share of the device's time in steps beyond what the cost model was measured at.
  double outside_share = 0;
  double mean_e2e_s = 0;  // of the requests that completed
  double metric = 0;      // the one that was asked for; NaN: undefined
  bool interrupted = false;
};

// A request of two runs of a workload; null in the run to which it did not come.
struct RequestPair {
  const JudgedRequest* one = nullptr;
  const JudgedRequest* other = nullptr;
};
// All requests that were offered in a run: those of `other` by id, then those of `one` alone.
// Borrows the runs.
std::vector<RequestPair> PairRequests(const JudgedRun& one, const JudgedRun& other);

// Simulates the deployment, which has one replica. `tap`: a further observer, or null. A request
// that did not complete has an E2E time up to the end of the run and 60 s more, and a TTFT and a
// longest gap as long, as far as it has none. `metric`: a key of the summary, or empty. Throws as
// Simulate().
JudgedRun RunJudged(const Deployment& deployment, RunControl& control, RunObserver* tap,
                    const std::string& metric);

// The score of a run, larger is better:
//   -(0.5 mean ln E2E + 0.3 ln mean TTFT + 0.2 ln p99 of the longest gap)
// over all offered requests. Every term pays for what another could hide.
double Utility(const JudgedRun& run);

// The score by one metric alone: its logarithm, negative if smaller values are better. Throws
// InputError (usage) if it is no positive number in the run, or has no better direction.
double MetricUtility(const JudgedRun& run, const std::string& metric);

}  // namespace twin::run
