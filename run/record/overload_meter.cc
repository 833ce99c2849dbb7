#include "run/record/overload_meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

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
constexpr double kFillShare = 0.2;
constexpr double kOverloadSeen = 0.05;  // as a share of the arrival rate
constexpr double kSeenZ = 2.33;
constexpr double kRoomMax = 0.025;  // as a share of the arrivals
constexpr double kRounding = 1e-6;  // of a request or token, which sums of flows may be off

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

Overload EstimateTrend(std::span<const double> backlog, double spacing_s, double rate,
                       bool has_room) {
  CHECK(backlog.size() >= 3);
  const Trend trend = FitTrend(backlog);
  const double growth = trend.slope / spacing_s / rate;
  // The standard deviation of the slope, s / sqrt(T) with T in units of the spacing.
  const double deviation = trend.deviation / std::sqrt(static_cast<double>(backlog.size() - 1));
  if (trend.slope > kSureZ * deviation && growth > kSlopeMin) return Overload::kYes;
  const bool would_be_seen = growth + kSeenZ * deviation / spacing_s / rate < kOverloadSeen;
  const bool grows = trend.slope > kDoubtfulZ * deviation && growth > kSlopeMin;
  return !grows && (has_room || would_be_seen) ? Overload::kNo : Overload::kUndecided;
}

OverloadMeter::OverloadMeter(const RequestMetrics::Config& config)
    : config_(config), bins_(kBins) {}

OverloadMeter::Flow& OverloadMeter::Flow::operator+=(const Flow& other) {
  rate += other.rate;
  moment += other.moment;
  return *this;
}

OverloadMeter::Bin& OverloadMeter::Bin::operator+=(const Bin& other) {
  arrivals += other.arrivals;
  starts += other.starts;
  departures += other.departures;
  ended_arrivals += other.ended_arrivals;
  time_in_system += other.time_in_system;
  for (std::size_t i = 0; i < served.size(); ++i) served[i] += other.served[i];
  return *this;
}

OverloadMeter::Bin& OverloadMeter::BinOf(TimePoint time) {
  const std::int64_t at = std::max<std::int64_t>(Nanoseconds(time), 0);
  while (at / width_.count() >= static_cast<std::int64_t>(kBins)) {
    for (std::size_t i = 0; i < kBins / 2; ++i) {
      bins_[i] = std::exchange(bins_[2 * i], {});
      bins_[i] += bins_[2 * i + 1];
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
  if (!life.measured) return;
  first_measured_ = std::min(first_measured_, life.arrival);
  loaded_until_ = std::max(loaded_until_, life.arrival);
}

void OverloadMeter::OnEnded(const RequestLife& life) {
  ++BinOf(life.ended).departures;
  const bool scheduled = life.scheduled != kTimeNever;
  ++BinOf(scheduled ? life.scheduled : life.ended).starts;
  if (scheduled && life.measured) loaded_until_ = std::max(loaded_until_, life.scheduled);
  if (life.status == RequestStatus::kCompleted) Serve(life);
  if (life.status == RequestStatus::kCancelled) ++cancelled_;
  if (IsTurnedAwayByLoad(life)) ++turned_away_;
  if (life.status == RequestStatus::kRejected) return;  // ended at once: no time in the system
  Bin& arrival = BinOf(life.arrival);
  ++arrival.ended_arrivals;
  arrival.time_in_system += Seconds(life.ended - life.arrival);
}

void OverloadMeter::Serve(const RequestLife& life) {
  const TimePoint end = life.ended;
  // No service takes no time: an amount must flow.
  const TimePoint begin = std::min(std::min(life.scheduled, end), end - Duration{1});
  std::array<double, kQuantities> amounts{};
  amounts[kRequests] = 1;
  amounts[kGoodRequests] = Keeps(config_.goal, life) ? 1 : 0;
  amounts[kOutputTokens] = life.output_tokens;
  amounts[kTokens] = amounts[kOutputTokens] + life.prompt_tokens;
  Bin& last = BinOf(end);  // may widen the bins
  Bin& first = BinOf(begin);
  for (std::size_t i = 0; i < kQuantities; ++i) {
    const double rate = amounts[i] / Seconds(end - begin);
    first.served[i] += {rate, rate * Seconds(begin)};
    last.served[i] += {-rate, -rate * Seconds(end)};
  }
}

double OverloadMeter::offered_rate() const {
  if (arrived_ < 2 || last_arrival_ <= first_arrival_)
    return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(arrived_ - 1) / Seconds(last_arrival_ - first_arrival_);
}

// Between edges of bins, where the sums are exact.
double OverloadMeter::SteadyRate(Quantity quantity) const {
  if (loaded_until_ <= first_measured_) return std::numeric_limits<double>::quiet_NaN();
  const double begin = std::max(FilledAt(loaded_until_), Seconds(first_measured_));
  const auto first = static_cast<std::size_t>(std::ceil(begin / SecondsPerBin()));
  const auto last = static_cast<std::size_t>(Seconds(loaded_until_) / SecondsPerBin());
  if (last <= first) return std::numeric_limits<double>::quiet_NaN();
  Flow until;
  double before = 0;
  for (std::size_t bin = 0; bin < last; ++bin) {
    if (bin == first)
      before = until.rate * SecondsPerBin() * static_cast<double>(first) - until.moment;
    until += bins_[bin].served[quantity];
  }
  const double after = until.rate * SecondsPerBin() * static_cast<double>(last) - until.moment;
  const double amount = after - before < kRounding ? 0 : after - before;
  return amount / (SecondsPerBin() * static_cast<double>(last - first));
}

double OverloadMeter::FilledAt(TimePoint end) const {
  const double begin = Seconds(first_arrival_);
  const double length = Seconds(end) - begin;
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

// The mean over the second half of the time up to the last arrival.
bool OverloadMeter::HasRoom() const {
  const auto last = static_cast<std::size_t>(Seconds(last_arrival_) / SecondsPerBin());
  const double middle = (Seconds(first_arrival_) + Seconds(last_arrival_)) / 2;
  const auto first = static_cast<std::size_t>(middle / SecondsPerBin());
  double requests = 0;  // those that wait counted twice
  double sum = 0;
  for (std::size_t bin = 0; bin <= last; ++bin) {
    if (bin >= first) sum += requests;
    requests += 2 * bins_[bin].arrivals - bins_[bin].starts - bins_[bin].departures;
  }
  const auto bins = static_cast<double>(last + 1 - first);
  return sum / bins < kRoomMax * static_cast<double>(arrived_);
}

Overload OverloadMeter::VerdictOfBacklog() const {
  if (arrived_ < kArrivalsMin || std::isnan(offered_rate())) return Overload::kUndecided;
  const double filled = FilledAt(last_arrival_);
  const auto first = static_cast<std::size_t>(std::ceil(filled / SecondsPerBin()));
  const auto last = static_cast<std::size_t>(Seconds(last_arrival_) / SecondsPerBin());
  const double arrivals = offered_rate() * (Seconds(last_arrival_) - filled);
  const auto wanted = std::min(kWindows, static_cast<std::size_t>(arrivals / 2));
  if (last <= first || wanted < kWindowsMin) return Overload::kUndecided;
  const std::size_t bins = std::max<std::size_t>(1, (last - first) / wanted);
  if ((last - first) / bins < kWindowsMin) return Overload::kUndecided;
  std::vector<double> backlog;
  double waiting = 0;
  double running = 0;
  for (std::size_t bin = 0; bin <= last; ++bin) {
    if (bin >= first && (bin - first) % bins == 0) backlog.push_back(waiting + running);
    waiting += bins_[bin].arrivals - bins_[bin].starts;
    running += bins_[bin].starts - bins_[bin].departures;
  }
  const Overload trend = EstimateTrend(backlog, SecondsPerBin() * static_cast<double>(bins),
                                       offered_rate(), HasRoom());
  const double middle = (Seconds(first_arrival_) + Seconds(last_arrival_)) / 2;
  const bool may_still_fill = filled > middle - SecondsPerBin() && waiting < running;
  return trend == Overload::kYes && may_still_fill ? Overload::kUndecided : trend;
}

void OverloadMeter::Summarise(const MetricWriter& out) const {
  out.Add("offered_rate", offered_rate(), "requests/s",
          "arrivals per second between the first and the last",
          "(arrivals - 1) / (last a - first a)");
  out.Add("completed_rate", SteadyRate(kRequests), "requests/s",
          "requests completed per second of the loaded time, without filling and drain",
          "share of each service in that time, summed / that time", kHigherIsBetter);
  out.Add("output_token_rate", SteadyRate(kOutputTokens), "tokens/s",
          "output tokens of the completed requests, likewise", "the same of n", kHigherIsBetter);
  out.Add("total_token_rate", SteadyRate(kTokens), "tokens/s",
          "prompt and output tokens of the completed requests, likewise",
          "the same of prompt tokens + n", kHigherIsBetter);
  if (config_.goal.any() || out.is_catalog()) {
    out.Add("good_rate", config_.Judged(SteadyRate(kGoodRequests)), "requests/s",
            "completed requests that keep every bound of `slo`, likewise; with `slo` only", "",
            kHigherIsBetter);
  }
  constexpr const char* kVerdicts[] = {"no", "undecided", "yes"};  // by Overload
  out.Add("saturated", kVerdicts[static_cast<std::size_t>(verdict())], "",
          "whether more arrived than the system can serve, so that latencies grow with the length "
          "of the run or clients are turned away or leave while they wait: yes, no or undecided");
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
