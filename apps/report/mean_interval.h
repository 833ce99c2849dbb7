// Intervals of the means of one run, and why a mean has none.
#pragma once

#include <string>
#include <string_view>

#include "apps/report/run_figures.h"

namespace twin::run {

// The words for a run. Batch means need a run that is long compared with the time in which the
// queue forgets its past, and the run itself cannot show that: one whose queue was short by chance
// looks independent. So the number of requests that an interval needs follows from the mean number
// of requests in the system: 500 times as many, or 80 times where little can queue, but at least
// 500. Little can queue where the clients are users who wait for their answers; or where, on
// average, no more than a third of the limit of sequences runs, a third of the KV cache is full,
// a tenth as many requests wait as run, and arrivals, counted in spans of the mean time in the
// system, have a variance of at most twice their mean. Poisson arrivals have the same variance as
// mean.
class MeanIntervals {
 public:
  // Borrows the run.
  explicit MeanIntervals(const ReportedRun& run);

  // " [low, high]", the 95 % interval by batch means of the completed requests in the order of
  // arrival; or why there is none, as " (no interval: ...)"; empty for a metric that is no mean of
  // a latency, and for a run without times of arrival.
  [[nodiscard]] std::string TextOf(std::string_view metric) const;

 private:
  [[nodiscard]] bool LittleQueues(double dispersion) const;

  const ReportedRun& run_;
  double requests_needed_ = 0;  // infinite: all arrived at once
};

}  // namespace twin::run
