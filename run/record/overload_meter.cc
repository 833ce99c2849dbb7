#include "run/record/overload_meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"

namespace twin {
namespace {

constexpr double kSureZ = 3;
constexpr double kDoubtfulZ = 1;
constexpr double kSlopeMin = 0.01;      // as a share of the arrival rate
constexpr double kTurnedAwayMax = 0.1;  // as a share of the arrivals
constexpr std::int64_t kArrivalsMin = 20;
constexpr std::size_t kWindows = 50;
constexpr std::size_t kWindowsMin = 10;
constexpr double kFillShare = 0.1;

struct Trend {
  double slope = 0;      // per value
  double deviation = 0;  // standard deviation of an increment
};

bool IsTurnedAwayByLoad(const RequestLife& life) {
  if (life.status == RequestStatus::kRejected) {
    return life.reject_reason == RejectReason::kOverloaded;
  }
  if (life.status != RequestStatus::kCancelled) return false;
  const TimePoint waited_until = std::min(life.scheduled, life.ended);  // kTimeNever is the latest
  return 2 * (waited_until - life.arrival) >= life.ended - life.arrival;
}

Trend FitTrend(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  const double middle = (n - 1) / 2;
  Trend trend;
  double squares = 0;
  double sum = 0;
  double sum_of_squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double offset = static_cast<double>(i) - middle;
    trend.slope += offset * values[i];
    squares += offset * offset;
    if (i == 0) continue;
    const double increment = values[i] - values[i - 1];
    sum += increment;
    sum_of_squares += increment * increment;
  }
  trend.slope /= squares;
  trend.deviation = std::sqrt(std::max(0.0, (sum_of_squares - sum * sum / (n - 1)) / (n - 2)));
  return trend;
}

}  // namespace

Overload EstimateTrend(std::span<const double> backlog, double spacing_s, double rate) {
  CHECK(backlog.size() >= 3);
  const Trend trend = FitTrend(backlog);
  const bool grows = trend.slope / spacing_s > kSlopeMin * rate;
  if (trend.deviation == 0) return grows ? Overload::kYes : Overload::kNo;
  // slope T / (s sqrt(T)), with T in units of the spacing.
  const double z =
      trend.slope * std::sqrt(static_cast<double>(backlog.size() - 1)) / trend.deviation;
  if (z > kSureZ && grows) return Overload::kYes;
  return z > kDoubtfulZ ? Overload::kUndecided : Overload::kNo;
}

OverloadMeter::OverloadMeter() : bins_(kBins) {}

OverloadMeter::Bin& OverloadMeter::BinOf(TimePoint time) {
  const std::int64_t at = std::max<std::int64_t>(Nanoseconds(time), 0);
  while (at / width_.count() >= static_cast<std::int64_t>(kBins)) {
    for (std::size_t i = 0; i < kBins / 2; ++i) {
      const Bin& first = bins_[2 * i];
      const Bin& second = bins_[2 * i + 1];
      bins_[i] = {first.arrivals + second.arrivals, first.departures + second.departures,
                  first.completions + second.completions,
                  first.ended_arrivals + second.ended_arrivals,
                  first.time_in_system + second.time_in_system};
    }
    std::fill(bins_.begin() + kBins / 2, bins_.end(), Bin{});
    width_ *= 2;
  }
  return bins_[static_cast<std::size_t>(at / width_.count())];
}

void OverloadMeter::OnArrived(TimePoint /*now*/, const RequestLife& life) {
  ++arrived_;
  first_arrival_ = std::min(first_arrival_, life.arrival);
  last_arrival_ = std::max(last_arrival_, life.arrival);
  ++BinOf(life.arrival).arrivals;
}

void OverloadMeter::OnEnded(const RequestLife& life) {
  Bin& end = BinOf(life.ended);
  ++end.departures;
  if (life.status == RequestStatus::kCompleted) ++end.completions;
  if (life.status == RequestStatus::kCancelled) ++cancelled_;
  if (IsTurnedAwayByLoad(life)) ++turned_away_;
  if (life.status == RequestStatus::kRejected) return;  // ended at once: no time in the system
  Bin& arrival = BinOf(life.arrival);
  ++arrival.ended_arrivals;
  arrival.time_in_system += Seconds(life.ended - life.arrival);
}

double OverloadMeter::offered_rate() const {
  if (arrived_ < 2 || last_arrival_ <= first_arrival_)
    return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(arrived_ - 1) / Seconds(last_arrival_ - first_arrival_);
}

double OverloadMeter::CompletionsUntil(double seconds) const {
  const double bins = std::clamp(seconds / SecondsPerBin(), 0.0, static_cast<double>(kBins));
  const auto whole = static_cast<std::size_t>(bins);
  double sum = 0;
  for (std::size_t i = 0; i < whole; ++i) sum += bins_[i].completions;
  if (whole < kBins) sum += (bins - static_cast<double>(whole)) * bins_[whole].completions;
  return sum;
}

double OverloadMeter::completed_rate() const {
  if (std::isnan(offered_rate())) return offered_rate();
  const double half = Seconds(last_arrival_ - first_arrival_) / 2;
  const double end = Seconds(last_arrival_);
  return (CompletionsUntil(end) - CompletionsUntil(end - half)) / half;
}

// Time at which the system had filled, in seconds.
double OverloadMeter::FilledAt() const {
  const double begin = Seconds(first_arrival_);
  const double length = Seconds(last_arrival_) - begin;
  const auto bins = static_cast<std::size_t>((begin + kFillShare * length) / SecondsPerBin()) + 1;
  double seconds = 0;
  std::int64_t ended = 0;
  for (std::size_t i = 0; i < std::min(bins, kBins); ++i) {
    seconds += bins_[i].time_in_system;
    ended += bins_[i].ended_arrivals;
  }
  const double early = ended > 0 ? seconds / static_cast<double>(ended) : 0;
  return begin + std::clamp(2 * early, kFillShare * length, length / 2);
}

// Compares with three standard deviations of a count.
bool OverloadMeter::Exceeds(std::int64_t count, double share) const {
  const double allowed = share * static_cast<double>(arrived_);
  return static_cast<double>(count) > allowed + kSureZ * std::sqrt(allowed);
}

Overload OverloadMeter::verdict() const {
  if (arrived_ >= kArrivalsMin && Exceeds(turned_away_, kTurnedAwayMax)) return Overload::kYes;
  const Overload by_backlog = VerdictOfBacklog();
  const bool left_early = Exceeds(cancelled_, kSlopeMin) || Exceeds(turned_away_, kSlopeMin);
  return by_backlog == Overload::kNo && left_early ? Overload::kUndecided : by_backlog;
}

Overload OverloadMeter::VerdictOfBacklog() const {
  if (arrived_ < kArrivalsMin || std::isnan(offered_rate())) return Overload::kUndecided;
  const double filled = FilledAt();
  const auto first = static_cast<std::size_t>(std::ceil(filled / SecondsPerBin()));
  const auto last = static_cast<std::size_t>(Seconds(last_arrival_) / SecondsPerBin());
  const double arrivals = offered_rate() * (Seconds(last_arrival_) - filled);
  const auto wanted = std::min(kWindows, static_cast<std::size_t>(arrivals / 2));
  if (last <= first || wanted < kWindowsMin) return Overload::kUndecided;
  const std::size_t bins = std::max<std::size_t>(1, (last - first) / wanted);
  if ((last - first) / bins < kWindowsMin) return Overload::kUndecided;
  std::vector<double> backlog;
  double waiting = 0;
  for (std::size_t bin = 0; bin <= last; ++bin) {
    if (bin >= first && (bin - first) % bins == 0) backlog.push_back(waiting);
    waiting += bins_[bin].arrivals - bins_[bin].departures;
  }
  return EstimateTrend(backlog, SecondsPerBin() * static_cast<double>(bins), offered_rate());
}

void OverloadMeter::Summarise(Summary& summary) const {
  const Overload overload = verdict();
  summary.Set("offered_rate", offered_rate());
  summary.Set("completed_rate", completed_rate());
  summary.Set("saturated", overload == Overload::kYes  ? "yes"
                           : overload == Overload::kNo ? "no"
                                                       : "undecided");
}

std::string OverloadWarning(const Summary& summary) {
  const SummaryValue* const saturated = summary.Find("saturated");
  if (saturated == nullptr || *saturated != SummaryValue("yes")) return "";
  return fmt::format(
      "offered rate exceeds capacity: latencies grow with the length of the run, or clients leave "
      "without an answer ({:.4g} requests/s arrive, {:.4g} are completed)",
      summary.Number("offered_rate"), summary.Number("completed_rate"));
}

}  // namespace twin
