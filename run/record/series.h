// series.csv: the load and throughput of a run over time, at a fixed interval.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <span>
#include <vector>

#include "run/record/run_listener.h"

namespace twin {

struct SeriesConfig {
  Duration interval = Duration{1'000'000'000};  // > 0; at first
  std::size_t points_max = 2048;                // >= 2 and even
  std::int32_t kv_blocks = 0;                   // usable device blocks
};

// Windows [k * interval, (k + 1) * interval) from the start of the run. When the run outgrows
// points_max windows, neighbours are joined and the interval doubles. Memory is bounded, and the
// result is the same as if the run had begun with the longer interval.
class Series : public RunListener {
 public:
  explicit Series(const SeriesConfig& config);

  [[nodiscard]] bool takes_streaks() const override { return true; }
  void OnArrived(TimePoint now, const RequestLife& life) override;
  void OnStepEnded(const EndedStep& step) override;
  void OnLoad(TimePoint from, TimePoint to, const Load& load) override;
  void OnEnded(const RequestLife& life) override;

  // Columns: SeriesColumns() of csv_columns.h, with power if `watts` has a number for each window.
  // Means and rates are over the part of the window that
  // was observed: the last window ends with the run.
  void WriteTo(std::ostream& out, std::span<const double> watts = {}) const;

  [[nodiscard]] Duration interval() const { return interval_; }
  [[nodiscard]] std::size_t points() const { return windows_.size(); }

 private:
  struct Window {
    // Integrals over time, in integers so that joining windows changes no digit.
    __extension__ using Integral = __int128;
    std::int64_t observed = 0;  // nanoseconds
    Integral waiting = 0;
    Integral running = 0;
    Integral swapped = 0;
    Integral blocks = 0;
    std::int64_t steps = 0;
    std::int64_t prefill_tokens = 0;
    std::int64_t decode_tokens = 0;
    std::int64_t padding_tokens = 0;
    std::int64_t arrivals = 0;
    std::int64_t completions = 0;

    void Join(const Window& other);
  };

  // The window that contains `time`; added if it is missing. REQUIRES: time >= 0.
  Window& At(TimePoint time);
  void DoubleInterval();

  SeriesConfig config_;
  Duration interval_;
  std::vector<Window> windows_;
};

}  // namespace twin
