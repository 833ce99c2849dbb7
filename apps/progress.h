// Progress of long work on stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace twin::apps {

// On a terminal, a line that is written anew at most five times a second, and erased at the end.
// Elsewhere, such as in a log, one further line each minute. Both say how much time is left if the
// total is known.
class Progress {
 public:
  // `total` 0 = unknown: only the count is shown.
  Progress(std::string what, std::uint64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Show(std::uint64_t done);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  [[nodiscard]] std::string TimeLeft(TimePoint now, std::uint64_t done) const;
  void DrawBar(TimePoint now, std::uint64_t done);
  void PrintLine(TimePoint now, std::uint64_t done) const;

  std::string what_;
  std::uint64_t total_;
  bool terminal_;
  bool drawn_ = false;
  TimePoint next_;
  TimePoint begin_;  // of the first report
  std::uint64_t done_at_begin_ = 0;
};

}  // namespace twin::apps
