// A progress line on stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace twin::apps {

// Writes only if stderr is a terminal, at most five times a second, with the time left if the total
// is known; erases itself at the end.
class Progress {
 public:
  // `total` 0 = unknown: only the count is shown.
  Progress(std::string what, std::uint64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Show(std::uint64_t done);

 private:
  [[nodiscard]] std::string TimeLeft(std::chrono::steady_clock::time_point now,
                                     std::uint64_t done) const;

  std::string what_;
  std::uint64_t total_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_;
  std::chrono::steady_clock::time_point begin_;  // of the first report that was shown
  std::uint64_t done_at_begin_ = 0;
};

}  // namespace twin::apps
