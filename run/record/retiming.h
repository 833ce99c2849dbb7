// Retiming: a recorded run with the durations of some parts replaced, at otherwise equal decisions.
//
// The idea: the error of a prediction comes from durations (a kernel is slower than modelled) and
// from decisions (other durations lead to other batches). Holding the recorded decisions fixed and
// replacing measured durations by modelled ones, part by part, separates the two and tells how much
// each part contributes. It is the critical-path method on the run's event graph: an instant
// depends on the steps whose ends it carries and on the arrivals that it carries; a step depends on
// the instant that planned it and on the step before it on the device. The times of a variant are
// one forward pass over that graph. The use for "what if this operation were faster" follows Coz
// (Curtsinger and Berger, "Coz: Finding Code that Counts with Causal Profiling", SOSP 2015),
// computed instead of slowed down.
//
// Easy to get wrong:
// - With nothing replaced the times must be the recorded ones to the nanosecond, or every share
//   carries the difference. The constructor checks that the measured parts add up.
// - Measured schedule time is only the part after the end of the previous step. Modelled schedule
//   time starts at planning and may overlap the previous step. Adding both in the same way would
//   count the overlap twice.
// - In a closed loop an arrival is the answer to a completion: it has to move with it
//   (ArrivalRule::kInReturn). In an open loop it must not.
// - A client gives up at a time of its own, but between which steps it leaves is a recorded
// decision.
//   So a cancellation keeps its distance from the moment before it if it can, and delays no step.
//   Otherwise each client that gives up would pull a run with faster steps back to the measured
//   times.
// - The engine hears of an arrival late if it is busy. This lateness is measured time too and has a
//   cause of its own (ModelledTimes::arrivals).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/step_parts.h"
#include "core/time.h"
#include "run/record/recorded_run.h"
#include "run/record/run_observer.h"

namespace twin {

// Rule for the time of an arrival.
enum class ArrivalRule : std::uint8_t {
  kByClock,   // its recorded time: clients send whatever the server does
  kInReturn,  // a fixed time after the latest instant before it: clients wait for answers
};

// The durations that come from the model; all remaining ones are the measured ones.
struct ModelledTimes {
  std::uint32_t parts = 0;  // bit i: StepPart i
  bool arrivals = false;    // the engine learns of them at once instead of as late as measured
  bool boundary = false;    // requests and tokens travel for their modelled times

  [[nodiscard]] bool Has(StepPart part) const {
    return (parts >> static_cast<unsigned>(part) & 1U) != 0;
  }
};

// Times of one variant, by moment of the run and by step in the order of planning.
struct RunTimes {
  std::vector<TimePoint> moments;
  std::vector<TimePoint> started;
  std::vector<TimePoint> finished;
  bool boundary = false;  // the variant's ModelledTimes::boundary
};

// Travel times of one request in a model of the boundary.
struct ModelledWay {
  Duration request{0};   // from its client to the engine
  Duration response{0};  // of its tokens, from the engine to the client
};

// Computes the times of a run's variants. An instant is retimed to the latest of its events; a step
// begins its schedule part when it is planned and the device has finished the step before it.
//
// Each replica is one device: with pipeline stages steps overlap, which this model does not
// describe. Instants keep their order, even if instants of two replicas would change places.
class Retiming {
 public:
  // Borrows all arguments. `measured` and `modelled` hold every step of the run, in the order of
  // planning; `ways` every request in the order of arrival, or nothing if the model has no
  // boundary. Throws InputError (data) if the times do not fit the run.
  Retiming(const RecordedRun& run, std::span<const StepTimes> measured,
           std::span<const StepParts> modelled, ArrivalRule rule,
           std::span<const ModelledWay> ways = {});

  [[nodiscard]] RunTimes Times(const ModelledTimes& variant) const;

  // Calls the observers as if the run had had `times`.
  void NotifyObservers(const RunTimes& times, std::span<RunObserver* const> observers) const;

 private:
  // Numbers the steps of all replicas in the order of planning.
  void NumberSteps();
  void CheckSteps() const;
  // Throws InputError (data) if the step was not planned.
  [[nodiscard]] std::size_t IndexOf(std::int32_t replica, StepId step) const;
  // Closed loops: links each arrival to the instant that it answers.
  void LinkArrivals();

  struct Arrival {
    std::size_t after = 0;  // the moment that its time counts from; kNoMoment: the run's start
    Duration behind{0};     // time after that moment
  };
  static constexpr std::size_t kNoMoment = SIZE_MAX;
  static constexpr std::size_t kNoStep = SIZE_MAX;

  [[nodiscard]] TimePoint ArrivalTime(const Arrival& arrival,
                                      const std::vector<TimePoint>& moments) const;
  // The time at which the events of a moment can be told; it may be before an earlier moment's
  // time.
  [[nodiscard]] TimePoint MomentTime(std::size_t index, const ModelledTimes& variant,
                                     const RunTimes& times) const;
  // Appends a moment that can be told at `time`, in order with the moments before it.
  void AppendMoment(TimePoint time, RunTimes& times) const;
  // Whether no step depends on the time of this moment: its events are cancellations alone.
  [[nodiscard]] bool Yields(std::size_t moment) const;
  void PlanSteps(std::size_t moment, const ModelledTimes& variant, RunTimes& times) const;

  const RecordedRun& run_;
  std::span<const StepTimes> measured_;
  std::span<const StepParts> modelled_;
  std::span<const ModelledWay> ways_;
  std::vector<std::vector<std::size_t>> numbers_;  // by replica and step: in the order of planning
  std::vector<std::size_t> before_;  // by step, in that order: the step before it on its replica
  std::vector<std::size_t> first_arrival_;  // by moment, into arrivals_
  std::vector<Arrival> arrivals_;           // in the order of the moments
};

}  // namespace twin
