// A recorded run with other durations: the same events, decisions and plans at other times.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/step_parts.h"
#include "core/step_times.h"
#include "core/time.h"
#include "record/recorded_run.h"
#include "record/run_observer.h"

namespace twin {

// How an arrival's time follows from the run.
enum class ArrivalRule : std::uint8_t {
  kByClock,   // at a time of its own, whatever the server does
  kInReturn,  // a fixed time behind the latest instant before it: clients wait for answers
};

// Which durations come from the model; the others are the measured ones.
struct ModelledTimes {
  std::uint32_t parts = 0;  // bit i: StepPart i
  bool arrivals = false;    // told at once, instead of as late as they were

  [[nodiscard]] bool Has(StepPart part) const {
    return (parts >> static_cast<unsigned>(part) & 1U) != 0;
  }
};

// Times of one variant, by moment of the run and by step in the order of planning.
struct RunTimes {
  std::vector<TimePoint> moments;
  std::vector<TimePoint> started;
  std::vector<TimePoint> finished;
};

// What a run would have looked like if some of its durations had been others and every decision had
// stayed. A moment comes when all that it tells has happened; a step begins its schedule when it
// has been planned and the device has ended the step before it. With nothing modelled the times
// are the recorded ones, to the nanosecond.
//
// One device: with pipeline stages steps overlap, which this does not describe.
class Retiming {
 public:
  // Borrows all. `measured` and `modelled`: of every step that has ended, in the order of planning;
  // later steps are left out. Throws InputError (data) if the times do not fit the run.
  Retiming(const RecordedRun& run, std::span<const StepTimes> measured,
           std::span<const StepParts> modelled, ArrivalRule rule);

  [[nodiscard]] RunTimes Times(const ModelledTimes& variant) const;

  // Tells observers the run as it is at `times`.
  void Tell(const RunTimes& times, std::span<RunObserver* const> observers) const;

 private:
  void CheckSteps() const;
  // Links arrivals told in closed loops to the moments that they are returns of.
  void LinkArrivals();

  struct Arrival {
    std::size_t after = 0;  // moment whose time it counts from; kNoMoment: the clock
    Duration behind{0};     // that moment
  };
  static constexpr std::size_t kNoMoment = SIZE_MAX;

  [[nodiscard]] TimePoint ArrivalTime(const Arrival& arrival,
                                      const std::vector<TimePoint>& moments) const;
  [[nodiscard]] TimePoint MomentTime(std::size_t index, const ModelledTimes& variant,
                                     const RunTimes& times) const;
  void PlanSteps(std::size_t moment, const ModelledTimes& variant, RunTimes& times) const;

  const RecordedRun& run_;
  std::span<const StepTimes> measured_;
  std::span<const StepParts> modelled_;
  std::vector<std::size_t> first_arrival_;  // by moment, into arrivals_
  std::vector<Arrival> arrivals_;           // in the order of telling
};

}  // namespace twin
