#include "apps/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace twin::apps {

Progress::Progress(std::string what, std::uint64_t total)
    : what_(std::move(what)),
      total_(total),
      terminal_(isatty(STDERR_FILENO) != 0),
      next_(std::chrono::steady_clock::now() + std::chrono::milliseconds(300)) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

// Returns no text in the first seconds, in which an estimate would jump.
std::string Progress::TimeLeft(std::chrono::steady_clock::time_point now,
                               std::uint64_t done) const {
  const double elapsed = std::chrono::duration<double>(now - begin_).count();
  if (elapsed < 2 || done <= done_at_begin_ || done >= total_) return "";
  const double left =
      elapsed * static_cast<double>(total_ - done) / static_cast<double>(done - done_at_begin_);
  if (left < 90) return fmt::format(", {:.0f} s left", left);
  if (left < 5400) return fmt::format(", {:.0f} min left", left / 60);
  return fmt::format(", {:.1f} h left", left / 3600);
}

void Progress::Show(std::uint64_t done) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(200);
  if (!shown_) {
    begin_ = now;
    done_at_begin_ = done;
  }
  shown_ = true;
  const auto count = static_cast<unsigned long long>(done);
  if (total_ == 0) {
    std::fprintf(stderr, "\r\033[K%s: %llu", what_.c_str(), count);
    return;
  }
  constexpr int kWidth = 30;
  const double share = static_cast<double>(done) / static_cast<double>(total_);
  const int full = static_cast<int>((share > 1 ? 1 : share) * kWidth);
  std::fprintf(stderr, "\r\033[K%s [%.*s%.*s] %llu of %llu%s", what_.c_str(), full,
               "##############################", kWidth - full, "..............................",
               count, static_cast<unsigned long long>(total_), TimeLeft(now, done).c_str());
}

}  // namespace twin::apps
