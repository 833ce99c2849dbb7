// The largest value of a setting, such as the arrival rate, at which bounds on metrics hold; or the
// smallest, such as the number of replicas.
//
// Idea: runs with the same seed at two values differ only through the value (common random
// numbers: arrivals at rate x are one path of unit rate, compressed by x), so a bisection on the
// mean over R seeds needs few runs. Three things are reported:
//
// - The value: where the mean of the limiting metric over all seeds crosses its bound, by
//   bisection and a straight line through the last two probes.
// - How far chance moves it: a t interval over the pseudo-values of the seeds (jackknife.h), from
//   runs of all seeds at two values around it.
// - The largest value that a sequential test accepts, and the smallest that it rejects
//   (output_statistics.h, SequentialSign). Between these two values R seeds are too few to decide.
//
// Easy to get wrong: short runs make the capacity look too large, and no interval over seeds shows
// it, because long queues have no time to form. The length of the runs is therefore doubled until
// the value is shown to move by less than the tolerance: the interval of the change, from pairs of
// equal seeds, lies within it. That two values are close is not enough, since both are noisy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "config/experiment_config.h"
#include "run/many/bounds.h"
#include "run/many/jackknife.h"
#include "run/many/output_statistics.h"
#include "run/run_control.h"

namespace twin::run {

struct CapacityQuestion {
  std::string path;  // of the setting, as in --set; whole numbers if its field takes only these
  double from = 0;   // the bounds should hold here
  double to = 0;     // and not here; above `from`
  // Asks for the smallest value instead: the bounds should hold at `to`, and not at `from`.
  bool smallest = false;
  std::vector<MetricBound> bounds;
  std::uint32_t replications = 20;  // seeds; at least 2, and 10 for the sequential test
  double confidence = 0.95;
  double tolerance = 0.01;  // of the value: width of the last bracket, and of a doubling's effect
  int doublings_max = 5;    // of workload.requests
  int jobs = 0;             // runs at a time; 0: one per core
};

// Runs at one value: with all seeds, or with as many as the test needed.
struct CapacityProbe {
  double x = 0;
  int doubling = 0;                 // how often the runs had been doubled
  std::int64_t requests = 0;        // the fewest that arrived in a run
  std::size_t n = 0;                // seeds
  std::string metric;               // of the bound with the least room
  Interval interval;                // of its mean
  Sign verdict = Sign::kUndecided;  // positive: accepted
};

struct Capacity {
  enum class Verdict { kFound, kHoldsEverywhere, kHoldsNowhere };
  // Whether longer runs would give the same value. Not testable: a trace or a duration ends the
  // runs, so that none are longer.
  enum class Settled { kNo, kYes, kNotTestable };

  std::string experiment;
  Verdict verdict = Verdict::kFound;
  // If the bounds hold everywhere, the end of the range at which they should not; NaN if nowhere.
  double value = 0;
  // The accepted and the rejected value next to `value`, the smaller one first: the largest
  // accepted value and the smallest rejected one, or the largest rejected and the smallest accepted
  // one. NaN if there is none.
  double low = 0;
  double high = 0;
  // The value before it is rounded to a whole number, and without each seed; empty unless found.
  RootOfMean root = {};
  // Mean and t interval of its pseudo-values; NaN if a run has no value of a metric.
  Interval by_seed = kNoInterval;
  // The change of the root by the last doubling of the runs, from pairs of equal seeds. Each end
  // holds with the question's confidence. NaN without a root at both lengths.
  Interval change = kNoInterval;
  std::string limiting;       // the bound that breaks first; empty if none does
  std::int64_t requests = 0;  // per run, in the end: the fewest that arrived at the value
  // Yes: the last doubling moved the value by less than the tolerance, and so do both ends of
  // `change`; or the bounds hold nowhere, or everywhere at both lengths.
  Settled settled = Settled::kNo;
  bool monotone = true;  // no value was accepted beyond a rejected one
  // Whether most runs at the last value that holds are saturated. The bounds then hold only
  // because they do not limit the queue, or because the runs end before it is long.
  bool saturated = false;
  std::int64_t runs = 0;              // in all
  std::vector<CapacityProbe> probes;  // in the order in which they were made
};

// "found", "holds everywhere", "holds nowhere".
const char* NameOf(Capacity::Verdict verdict);
// The verdict of the test: "accepted", "rejected", "undecided".
const char* NameOf(Sign verdict);

// The first experiment against another one: ratio and difference of the values, from pairs of equal
// seeds.
struct CapacityComparison {
  std::size_t first = 0;
  std::size_t second = 0;
  PairedComparison paired;
};

struct CapacityAnswer {
  std::vector<Capacity> capacities;  // by experiment
  // Each experiment from the second on against the first one, at the confidence divided by their
  // number (Bonferroni). Without experiments whose root has no interval.
  std::vector<CapacityComparison> comparisons;
  bool interrupted = false;  // then the capacities hold the results so far
};

// Throws InputError: a setting that does not exist, an experiment that is not valid at a value or
// runs in a real world, a bounded metric that no run has.
CapacityAnswer FindCapacities(const std::vector<ExperimentTemplate>& experiments,
                              const std::vector<std::string>& names,
                              const CapacityQuestion& question, RunControl& control);

}  // namespace twin::run
