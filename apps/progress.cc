#include "apps/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace twin::apps {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kFirstBar{300};
constexpr std::chrono::milliseconds kNextBar{200};
constexpr std::chrono::minutes kNextLine{1};

}  // namespace

Progress::Progress(std::string what, std::uint64_t total)
    : what_(std::move(what)), total_(total), terminal_(isatty(STDERR_FILENO) != 0) {
  next_ = steady_clock::now();
  next_ += terminal_ ? steady_clock::duration(kFirstBar) : steady_clock::duration(kNextLine);
}

Progress::~Progress() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

// Returns no text in the first seconds, in which an estimate would jump.
std::string Progress::TimeLeft(TimePoint now, std::uint64_t done) const {
  const double elapsed = std::chrono::duration<double>(now - begin_).count();
  if (elapsed < 2 || done <= done_at_begin_ || done >= total_) return "";
  const double left =
      elapsed * static_cast<double>(total_ - done) / static_cast<double>(done - done_at_begin_);
  if (left < 90) return fmt::format(", {:.0f} s left", left);
  if (left < 5400) return fmt::format(", {:.0f} min left", left / 60);
  return fmt::format(", {:.1f} h left", left / 3600);
}

void Progress::Show(std::uint64_t done) {
  const TimePoint now = steady_clock::now();
  if (begin_ == TimePoint{}) {
    begin_ = now;
    done_at_begin_ = done;
  }
  if (now < next_) return;
  if (terminal_) {
    next_ = now + kNextBar;
    DrawBar(now, done);
  } else {
    next_ = now + kNextLine;
    PrintLine(now, done);
  }
}

void Progress::DrawBar(TimePoint now, std::uint64_t done) {
  drawn_ = true;
  if (total_ == 0) {
    fmt::print(stderr, "\r\033[K{}: {}", what_, done);
    return;
  }
  constexpr int kWidth = 30;
  const double share = static_cast<double>(done) / static_cast<double>(total_);
  const int full = static_cast<int>(std::min(share, 1.0) * kWidth);
  fmt::print(stderr, "\r\033[K{} [{:#<{}}{:.<{}}] {} of {}{}", what_, "", full, "", kWidth - full,
             done, total_, TimeLeft(now, done));
}

void Progress::PrintLine(TimePoint now, std::uint64_t done) const {
  const std::string total = total_ == 0 ? "" : fmt::format(" of {}", total_);
  fmt::print(stderr, "{}: {}{}{}\n", what_, done, total, TimeLeft(now, done));
}

}  // namespace twin::apps
