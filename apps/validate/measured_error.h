// Errors of a simulation against a measured run, metric by metric, with intervals.
//
// The error is simulated / measured - 1. The variance of its logarithm has up to three parts, which
// are independent: chance of the measured run, errors of the cost model and of the boundary, and
// arrivals that had to be drawn. Where the simulation sends the measured requests at their times,
// both sides of the same requests are resampled together, because lengths and arrivals are then the
// same in both and no part of the chance.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "run/client_metrics.h"

namespace twin::apps {

enum class ErrorVerdict : std::uint8_t {
  kAgrees,          // the interval holds 0, and nothing beyond +-25 %
  kCannotTell,      // it holds 0, and so much else that an agreement would say nothing
  kOff,             // it does not hold 0
  kTooFewRequests,  // fewer than run::RequestsNeeded()
  kNoInterval,      // its chance is not known
};

struct MetricError {
  std::string metric;  // key of summary.json
  double measured = 0;
  double simulated = 0;
  std::int64_t requests = 0;  // of the measured run
  double log_sd = std::numeric_limits<double>::quiet_NaN();
  // The buckets of a quantile that nothing else tells; `measured` is then its middle, and `log_sd`
  // holds what is added to the width of the range.
  std::optional<QuantileRange> range{};

  [[nodiscard]] double percent() const { return 100 * (simulated / measured - 1); }
  // The ends of the interval of 95 %. REQUIRES: has_interval().
  [[nodiscard]] double low_percent() const;
  [[nodiscard]] double high_percent() const;
  [[nodiscard]] ErrorVerdict verdict() const;
  [[nodiscard]] bool has_interval() const {
    const ErrorVerdict told = verdict();
    return told != ErrorVerdict::kTooFewRequests && told != ErrorVerdict::kNoInterval;
  }
  // "agrees within 8 %", "cannot tell", "off by +23 %", "too few requests (3 of 368)", "no
  // interval"; of a range with its ends, "off by +23 % (measured in 50 to 100)".
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] std::string RangeText() const;
};

// Variances of a logarithm by metric; metrics without one are left out.
using LogVariances = run::MetricValues;

// Moving-block bootstrap (Kuensch 1989): variances of ln(simulated / measured), or of ln(measured)
// where `simulated` is null, over resampled requests in order of sending, in blocks of 5 % of the
// run, because requests of one queue depend on each other. REQUIRES: equal numbers of requests.
LogVariances ResampledVariances(const run::ClientMetrics& measured,
                                const run::ClientMetrics* simulated, std::size_t requests);

// The variance of the logarithm of the throughput, as above: blocks are 5 % of the time from the
// first sending to the last token, and hold the requests that ended in it; blocks of both runs, if
// `simulated` has requests, come from the same share of their times. nullopt if it is not known.
std::optional<double> ThroughputVariance(std::span<const BenchmarkRequest> measured,
                                         std::span<const BenchmarkRequest> simulated);

// Variances of the logarithms over draws. REQUIRES: at least two.
LogVariances VariancesOver(const std::vector<run::MetricValues>& draws);

// Standard error of the difference of two means of the same requests, in ms, by blocks as above.
double DifferenceSd(const run::ClientMetrics& first, const run::ClientMetrics& second,
                    std::size_t requests, const std::string& metric);

// The statistic and the latency of a key, such as "p99" and "ttft"; empty for other keys.
std::string_view StatisticOf(std::string_view metric);
std::string_view LatencyOf(std::string_view metric);
// "TTFT mean", "requests/s".
std::string TitleOf(std::string_view metric);

}  // namespace twin::apps
