// Energy, power and cost of the devices of a run.
//
// While a step is in flight, each device of its replica takes base_watts, and the energy of the
// step's work in addition, up to limit_watts while the step is on the device; otherwise it takes
// idle_watts. All replicas and pools count, from the first arrival to the end of the run. Steps of
// a pipeline overlap: the time that they share counts once.
//
// Source of the form: core/energy_spec.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/energy_spec.h"
#include "run/record/metric_writer.h"
#include "run/record/run_listener.h"
#include "run/record/step_work.h"

namespace twin {

// Work of a step on all devices of a replica.
struct MeteredWork {
  double joules = 0;         // beside base power, within the limits
  double limited_share = 0;  // of the devices, those at limit_watts
};

// The work of equal devices that take `joules` beside base power within `busy_s` seconds.
inline MeteredWork WithinLimit(double joules, const EnergySpec& energy, double devices,
                               double busy_s) {
  const double room = devices * (energy.limit_watts - energy.base_watts) * busy_s;
  return {std::min(joules, std::max(0.0, room)), joules > room ? 1.0 : 0.0};
}

// Replicas of one kind.
struct MeteredDevices {
  std::int32_t replicas = 1;
  std::int32_t devices = 1;          // of a replica
  std::optional<EnergySpec> energy;  // of the mean device
  std::optional<PriceSpec> price;    // of the mean device
  // The work of a step that is on the devices for so many seconds. The second argument takes the
  // place of totals.decode_context_tokens. Set if `energy` is.
  std::function<MeteredWork(const StepTotals&, std::int64_t, double)> work;
};

// Says nothing of energy unless that of all devices is known, and nothing of cost unless all have a
// price. Memory: constant for each replica and window. Cost: constant for each step.
class EnergyMeter : public RunListener {
 public:
  // `interval`: of the windows of max_power_w and power(), at first; as in SeriesConfig.
  EnergyMeter(std::vector<MeteredDevices> groups, Duration interval, std::size_t points_max);

  [[nodiscard]] bool takes_streaks() const override { return true; }
  void OnArrived(TimePoint now, const RequestLife& life) override;
  void OnStepEnded(const EndedStep& step) override;
  void OnLoad(TimePoint from, TimePoint to, const Load& load) override;
  void OnEnded(const RequestLife& life) override;

  // Adds energy, power and cost of all devices, and the energy of each of several groups.
  void Summarise(const MetricWriter& out) const;

  // Mean watts of all devices in windows of `interval` from the start of the run; empty if unknown.
  // REQUIRES: `interval` is the meter's first interval, doubled any number of times.
  [[nodiscard]] std::vector<double> Power(Duration interval, std::size_t points) const;

 private:
  // A window of time of one replica.
  struct Window {
    double joules = 0;           // while steps are in flight, of all devices
    std::int64_t in_flight = 0;  // nanoseconds
  };
  // Replicas may end steps at once, on several threads.
  struct alignas(64) Replica {
    TimePoint until = TimePoint::min();  // the latest end of a step
    Duration in_flight{0};
    Duration busy{0};     // with a step on the device
    Duration limited{0};  // of `busy`, at limit_watts: the mean device
    double joules = 0;    // while steps are in flight
    Duration interval{0};
    std::vector<Window> windows;
  };

  // The window of a replica that holds `time`.
  Window& At(Replica& replica, TimePoint time) const;
  void Spread(Replica& replica, TimePoint from, TimePoint to, double joules) const;
  [[nodiscard]] double IdleWatts(std::size_t group) const;
  [[nodiscard]] Duration time() const;
  void SummariseEnergy(const MetricWriter& out) const;
  [[nodiscard]] double MaxPower() const;

  std::vector<MeteredDevices> groups_;
  Duration interval_;
  std::size_t points_max_;
  bool knows_energy_ = false;
  std::vector<std::size_t> group_of_;  // by replica
  std::vector<Replica> replicas_;
  std::optional<TimePoint> first_arrival_;
  TimePoint end_ = kTimeZero;
  std::int64_t completed_ = 0;
  std::int64_t output_tokens_ = 0;  // of completed requests
};

}  // namespace twin
