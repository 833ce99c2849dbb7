#include "run/record/energy_meter.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "core/check.h"

namespace twin {
namespace {

constexpr double kSecondsPerHour = 3600;

bool AllKnow(const std::vector<MeteredDevices>& groups, auto MeteredDevices::*what) {
  return std::ranges::all_of(
      groups, [&](const MeteredDevices& group) { return (group.*what).has_value(); });
}

double DevicesOf(const MeteredDevices& group) {
  return static_cast<double>(group.replicas) * group.devices;
}

}  // namespace

EnergyMeter::EnergyMeter(std::vector<MeteredDevices> groups, Duration interval,
                         std::size_t points_max)
    : groups_(std::move(groups)),
      interval_(interval),
      points_max_(points_max),
      knows_energy_(AllKnow(groups_, &MeteredDevices::energy)) {
  CHECK(interval > Duration{0});
  CHECK(points_max >= 2 && points_max % 2 == 0);
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    CHECK(!groups_[i].energy || groups_[i].work);
    group_of_.insert(group_of_.end(), static_cast<std::size_t>(groups_[i].replicas), i);
  }
  replicas_.resize(group_of_.size());
  for (Replica& replica : replicas_) replica.interval = interval;
}

void EnergyMeter::OnArrived(TimePoint now, const RequestLife& /*life*/) {
  if (!first_arrival_) first_arrival_ = now;
}

void EnergyMeter::OnStepEnded(const EndedStep& step) {
  if (!knows_energy_) return;
  const auto index = static_cast<std::size_t>(step.plan.replica);
  Replica& replica = replicas_[index];
  const MeteredDevices& group = groups_[group_of_[index]];
  const EnergySpec& energy = *group.energy;
  const TimePoint from = std::max(step.planned, replica.until);
  const Duration in_flight = std::max(step.finished - from, Duration{0});
  const Duration busy = std::max(step.finished - std::max(step.started, from), Duration{0});
  const MeteredWork work = group.work(step.plan.totals, step.decode_context_tokens, Seconds(busy));
  const double joules = group.devices * energy.base_watts * Seconds(in_flight) + work.joules;
  replica.limited += Duration{std::llround(work.limited_share * static_cast<double>(busy.count()))};
  replica.in_flight += in_flight;
  replica.busy += busy;
  replica.joules += joules;
  if (in_flight > Duration{0}) {
    Spread(replica, from, step.finished, joules);
  } else {
    At(replica, step.finished).joules += joules;
  }
  replica.until = std::max(replica.until, step.finished);
}

void EnergyMeter::OnLoad(TimePoint /*from*/, TimePoint to, const Load& /*load*/) { end_ = to; }

void EnergyMeter::OnEnded(const RequestLife& life) {
  if (life.status != RequestStatus::kCompleted) return;
  ++completed_;
  output_tokens_ += life.output_tokens;
}

EnergyMeter::Window& EnergyMeter::At(Replica& replica, TimePoint time) const {
  const auto most = static_cast<std::int64_t>(points_max_);
  while (time.time_since_epoch() / replica.interval >= most) {
    const std::size_t kept = (replica.windows.size() + 1) / 2;
    for (std::size_t i = 0; i < kept; ++i) {
      Window joined = replica.windows[2 * i];
      if (2 * i + 1 < replica.windows.size()) {
        joined.joules += replica.windows[2 * i + 1].joules;
        joined.in_flight += replica.windows[2 * i + 1].in_flight;
      }
      replica.windows[i] = joined;
    }
    replica.windows.resize(kept);
    replica.interval *= 2;
  }
  const auto index = static_cast<std::size_t>(time.time_since_epoch() / replica.interval);
  if (index >= replica.windows.size()) replica.windows.resize(index + 1);
  return replica.windows[index];
}

void EnergyMeter::Spread(Replica& replica, TimePoint from, TimePoint to, double joules) const {
  // The last window first, so that the interval is settled before the pieces are cut.
  At(replica, to - Duration{1});
  const double watts = joules / Seconds(to - from);
  while (from < to) {
    Window& window = At(replica, from);
    const TimePoint window_end =
        kTimeZero + (from.time_since_epoch() / replica.interval + 1) * replica.interval;
    const TimePoint end = std::min(to, window_end);
    window.joules += watts * Seconds(end - from);
    window.in_flight += (end - from).count();
    from = end;
  }
}

double EnergyMeter::IdleWatts(std::size_t group) const {
  const EnergySpec& energy = *groups_[group].energy;
  return energy.idle_watts > 0 ? energy.idle_watts : energy.base_watts;
}

Duration EnergyMeter::time() const {
  return first_arrival_ ? std::max(end_ - *first_arrival_, Duration{0}) : Duration{0};
}

std::vector<double> EnergyMeter::Power(Duration interval, std::size_t points) const {
  std::vector<double> watts;
  if (!knows_energy_) return watts;
  watts.resize(points);
  const std::int64_t length = interval.count();
  for (std::size_t i = 0; i < points; ++i) {
    const std::int64_t begin = static_cast<std::int64_t>(i) * length;
    const std::int64_t observed = std::min(length, end_.time_since_epoch().count() - begin);
    if (observed <= 0) continue;
    for (std::size_t r = 0; r < replicas_.size(); ++r) {
      const Replica& replica = replicas_[r];
      const std::int64_t each = length / replica.interval.count();
      double joules = 0;
      std::int64_t in_flight = 0;
      for (std::int64_t j = 0; j < each; ++j) {
        const auto at = static_cast<std::size_t>(static_cast<std::int64_t>(i) * each + j);
        if (at >= replica.windows.size()) break;
        joules += replica.windows[at].joules;
        in_flight += replica.windows[at].in_flight;
      }
      const std::size_t group = group_of_[r];
      joules += IdleWatts(group) * groups_[group].devices * 1e-9 *
                static_cast<double>(std::max<std::int64_t>(0, observed - in_flight));
      watts[i] += joules / (1e-9 * static_cast<double>(observed));
    }
  }
  return watts;
}

double EnergyMeter::MaxPower() const {
  Duration interval = interval_;
  for (const Replica& replica : replicas_) interval = std::max(interval, replica.interval);
  const auto most = static_cast<std::int64_t>(points_max_);
  while (end_.time_since_epoch() / interval >= most) interval *= 2;
  const auto points = static_cast<std::size_t>(end_.time_since_epoch() / interval + 1);
  const std::vector<double> watts = Power(interval, points);
  return *std::ranges::max_element(watts);
}

void EnergyMeter::SummariseEnergy(const MetricWriter& out) const {
  std::vector<double> joules(groups_.size());
  double idle = 0;
  double limited = 0;
  double busy = 0;
  double limit_watts = 0;
  for (std::size_t r = 0; r < replicas_.size(); ++r) {
    const Replica& replica = replicas_[r];
    const std::size_t group = group_of_[r];
    const double devices = groups_[group].devices;
    const double unused = std::max(0.0, Seconds(time() - replica.in_flight));
    idle += IdleWatts(group) * devices * unused;
    joules[group] += replica.joules + IdleWatts(group) * devices * unused;
    limited += devices * Seconds(replica.limited);
    busy += devices * Seconds(replica.busy);
    limit_watts += devices * groups_[group].energy->limit_watts;
  }
  double sum = 0;
  for (const double of_group : joules) sum += of_group;
  const auto add_energy = [](const MetricWriter& to, double value) {
    to.Add("energy_joules", value, "J",
           "energy of all devices from the first arrival to the end of the run, without host, fans "
           "and network; energy and power only if the data sheets know them",
           "idle, base and work of core/energy_spec.h", kByGroup);
  };
  add_energy(out, sum);
  out.Add("mean_power_w", Ratio(sum, Seconds(time())), "W", "mean power of all devices",
          "energy_joules / time");
  out.Add("max_power_w", MaxPower(), "W",
          "largest mean power in windows of metrics.series_interval_s, which double in long runs");
  out.Add("provisioned_power_w", limit_watts, "W", "sum of the devices' limits");
  out.Add("energy_per_output_token_j", Ratio(sum, output_tokens_), "J",
          "energy for an output token of a completed request", "energy_joules / output tokens");
  out.Add("energy_per_request_j", Ratio(sum, completed_), "J", "energy for a completed request",
          "energy_joules / completed");
  const bool knows_idle = std::ranges::all_of(
      groups_, [](const MeteredDevices& group) { return group.energy->idle_watts > 0; });
  if (knows_idle) {
    out.Add("idle_energy_share", Ratio(idle, sum), "share",
            "share of the energy in which no step was in flight; only if the data sheets know idle "
            "power, which otherwise counts as their base power");
  }
  out.Add("power_limited_share", Ratio(limited, busy), "share",
          "share of the devices' busy time at their power limit");
  for (std::size_t i = 0; groups_.size() > 1 && i < groups_.size(); ++i) {
    add_energy(out.Under("group_" + std::to_string(i) + "_", kByGroup), joules[i]);
  }
}

void EnergyMeter::Summarise(const MetricWriter& out) const {
  if (groups_.empty() && !out.is_catalog()) return;
  if (knows_energy_) SummariseEnergy(out);
  const double hours = Seconds(time()) / kSecondsPerHour;
  double devices = 0;
  for (const MeteredDevices& group : groups_) devices += DevicesOf(group);
  out.Add("device_hours", devices * Seconds(time()) / kSecondsPerHour, "h",
          "time of all devices; only if the data sheets know energy or price",
          "devices * time / 3600");
  if (!AllKnow(groups_, &MeteredDevices::price)) return;
  double cost = 0;
  for (const MeteredDevices& group : groups_) {
    cost += DevicesOf(group) * hours * group.price->usd_per_hour;
  }
  out.Add("cost_usd", cost, "$", "price of that time; only if the data sheets have a price",
          "sum of device_hours * price.usd_per_hour");
  out.Add("cost_per_million_output_tokens_usd", Ratio(1e6 * cost, output_tokens_), "$",
          "the same for 1e6 output tokens");
}

}  // namespace twin
