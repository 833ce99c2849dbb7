// The search for the capacity of one experiment at one length of its runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "run/many/capacity.h"
#include "run/many/capacity_runs.h"
#include "run/run_control.h"

namespace twin::run {

// Searches for the largest x at which the bounds hold. For the smallest value of a setting, x is
// its negative (Mirrored()).
class CapacitySearch {
 public:
  // Borrows all three.
  CapacitySearch(const ExperimentTemplate& experiment, const CapacityQuestion& question,
                 RunControl& control)
      : question_(question), control_(control), runs_(experiment, question, control) {}

  [[nodiscard]] std::int64_t own_requests() const { return runs_.own_requests(); }

  // A difference of the value that does not matter, in units of the setting. REQUIRES: FindValue().
  [[nodiscard]] double Tolerated() const;
  // The smallest step that changes the setting and is tolerated.
  [[nodiscard]] double SmallestStep() const { return StepOf(Tolerated()); }

  // Finds the value with runs of this length, and how far chance moves it; a value found before,
  // with shorter runs, is where the search begins. Throws SearchStopped, or what a run throws.
  void FindValue(std::int64_t requests);

  // Whether the runs at the value had as many requests as were asked for. False if a trace or a
  // duration ends them: longer runs are then the same. REQUIRES: FindValue().
  [[nodiscard]] bool HasAllRequests() const;

  // Finds the values that the test accepts and rejects. REQUIRES: FindValue().
  void FindInterval();

  // The result so far; complete once FindInterval() has returned.
  [[nodiscard]] const Capacity& found() const { return found_; }
  Capacity& found() { return found_; }
  // Sums up runs; to be called at the end, also of a search that was stopped.
  void CountRuns() {
    found_.runs = runs_.runs();
    const bool everywhere = found_.verdict == Capacity::Verdict::kHoldsEverywhere;
    found_.saturated = runs_.IsSaturated(everywhere ? UpperEnd() : found_.low);
  }

 private:
  // Room of each bound at x: the mean over the first `seeds` seeds, relative to the limit.
  [[nodiscard]] std::vector<double> MeanRoom(double x, std::size_t seeds) const;
  // The least room of the bounds; negative if a metric has no value.
  [[nodiscard]] static double SmallestRoom(const std::vector<double>& rooms);
  [[nodiscard]] std::vector<double> RoomOf(const std::vector<double>& values) const;

  // Runs seeds at x until the test decides or all are run; says whether the bounds hold in the
  // mean.
  bool Holds(double x);
  // Holds() with all seeds.
  bool HoldsForAll(double x);
  Sign Test(double x, std::size_t seeds);
  // The share of the error that the test at x may spend.
  double ErrorOf(double x);
  void Note(double x, std::size_t seeds, Sign verdict);

  struct Bracket {
    double low = 0;   // holds
    double high = 0;  // does not
  };
  [[nodiscard]] bool IsNarrow(const Bracket& bracket) const;
  [[nodiscard]] double Midpoint(const Bracket& bracket) const;
  // The smallest width of a bracket, in units of the setting, at which a search ends in any case: 0
  // where the range lies above 0. Around 0, a precision relative to the value is never reached.
  [[nodiscard]] double WidthMin() const;
  // The step, but at least one that changes the setting.
  [[nodiscard]] double StepOf(double step) const;
  [[nodiscard]] double LowerEnd() const { return runs_.Rounded(question_.from); }
  [[nodiscard]] double UpperEnd() const { return runs_.Rounded(question_.to); }
  // nullopt if the bounds hold at both ends or at none.
  std::optional<Bracket> FirstBracket();
  std::optional<Bracket> BracketNear(const Bracket& ends);
  std::optional<Bracket> HoldsNowhere();
  std::optional<Bracket> HoldsEverywhere(double end);
  // A narrow bracket whose ends all seeds confirm.
  std::optional<Bracket> ConfirmBracket(Bracket bracket);
  void SetValue(const Bracket& bracket);
  [[nodiscard]] double LastRun() const;
  // Runs all seeds at two values around the value, and finds the root without each seed.
  void LeaveSeedsOut();
  void FindEnd(double step, Sign wanted);

  const CapacityQuestion& question_;
  RunControl& control_;
  CapacityRuns runs_;
  int doubling_ = -1;
  std::map<double, std::size_t> tests_;  // by x: number of the test, with runs of this length
  Bracket bracket_;
  bool has_value_ = false;
  Capacity found_;
};

}  // namespace twin::run
