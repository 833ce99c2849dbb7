#include "run/record/series.h"

#include <algorithm>
#include <ostream>

#include "core/check.h"
#include "core/csv.h"
#include "run/record/csv_columns.h"

namespace twin {

Series::Series(const SeriesConfig& config) : config_(config), interval_(config.interval) {
  CHECK(config.interval > Duration{0});
  CHECK(config.points_max >= 2 && config.points_max % 2 == 0);
  windows_.reserve(config.points_max);
}

void Series::OnArrived(TimePoint now, const RequestLife& /*life*/) { ++At(now).arrivals; }

void Series::OnStepEnded(const EndedStep& step) {
  const StepTotals& totals = step.plan.totals;
  Window& window = At(step.finished);
  ++window.steps;
  const std::int64_t verified = totals.draft_items + totals.draft_tokens;
  window.prefill_tokens += totals.prefill_tokens - verified;
  window.decode_tokens += totals.decode_items + verified;
  window.padding_tokens += totals.padding_tokens;
}

void Series::OnLoad(TimePoint from, TimePoint to, const Load& load) {
  // The last window first, so that the interval is settled before the pieces are cut.
  At(to - Duration{1});
  while (from < to) {
    Window& window = At(from);
    const TimePoint window_end = kTimeZero + (from.time_since_epoch() / interval_ + 1) * interval_;
    const TimePoint end = std::min(to, window_end);
    const Window::Integral length = (end - from).count();
    window.observed += (end - from).count();
    window.waiting += length * load.waiting;
    window.running += length * load.running;
    window.swapped += length * load.swapped;
    window.blocks += length * load.used_blocks;
    from = end;
  }
}

void Series::OnEnded(const RequestLife& life) {
  if (life.status == RequestStatus::kCompleted) ++At(life.ended).completions;
}

void Series::WriteTo(std::ostream& out, std::span<const double> watts) const {
  CHECK(watts.empty() || watts.size() == windows_.size());
  out << HeaderLine(SeriesColumns(!watts.empty()));
  CsvLine line;
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    const Window& window = windows_[i];
    const auto add_ratio = [&line](double sum, double over) {
      if (over > 0) {
        line.Number(sum / over);
      } else {
        line.Nothing();
      }
    };
    const double nanoseconds = static_cast<double>(window.observed);
    const double seconds = nanoseconds * 1e-9;
    line.Seconds(kTimeZero + static_cast<std::int64_t>(i) * interval_);
    add_ratio(static_cast<double>(window.waiting), nanoseconds);
    add_ratio(static_cast<double>(window.running), nanoseconds);
    add_ratio(static_cast<double>(window.swapped), nanoseconds);
    add_ratio(static_cast<double>(window.blocks), nanoseconds * config_.kv_blocks);
    add_ratio(static_cast<double>(window.prefill_tokens), seconds);
    add_ratio(static_cast<double>(window.decode_tokens), seconds);
    const std::int64_t tokens =
        window.prefill_tokens + window.decode_tokens + window.padding_tokens;
    add_ratio(static_cast<double>(tokens), static_cast<double>(window.steps));
    line.Count(window.arrivals).Count(window.completions);
    if (!watts.empty()) line.Number(watts[i]);
    line.WriteTo(out);
  }
}

Series::Window& Series::At(TimePoint time) {
  CHECK(time >= kTimeZero);
  while (time.time_since_epoch() / interval_ >= static_cast<std::int64_t>(config_.points_max)) {
    DoubleInterval();
  }
  const auto index = static_cast<std::size_t>(time.time_since_epoch() / interval_);
  if (index >= windows_.size()) windows_.resize(index + 1);
  return windows_[index];
}

void Series::DoubleInterval() {
  const std::size_t kept = (windows_.size() + 1) / 2;
  for (std::size_t i = 0; i < kept; ++i) {
    Window joined = windows_[2 * i];
    if (2 * i + 1 < windows_.size()) joined.Join(windows_[2 * i + 1]);
    windows_[i] = joined;
  }
  windows_.resize(kept);
  interval_ *= 2;
}

void Series::Window::Join(const Window& other) {
  observed += other.observed;
  waiting += other.waiting;
  running += other.running;
  swapped += other.swapped;
  blocks += other.blocks;
  steps += other.steps;
  prefill_tokens += other.prefill_tokens;
  decode_tokens += other.decode_tokens;
  padding_tokens += other.padding_tokens;
  arrivals += other.arrivals;
  completions += other.completions;
}

}  // namespace twin
