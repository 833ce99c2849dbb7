#include "apps/serve/send_times.h"

#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>

#include "core/csv.h"

namespace twin::apps {
namespace {

std::int64_t StartOf(const run::Service& service) {
  const auto age_ns = static_cast<double>(Nanoseconds(service.now())) / service.model().speed;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::nanoseconds(now).count() - static_cast<std::int64_t>(age_ns);
}

}  // namespace

SendTimes::SendTimes(const std::filesystem::path& file, const run::Service& service)
    : speed_(service.model().speed),
      start_ns_(StartOf(service)),
      path_(file.string()),
      stream_(file) {
  stream_ << "request,due_ns,sent_ns\n";
  if (!stream_) throw std::system_error(errno, std::generic_category(), path_);
}

std::int64_t SendTimes::OnSteadyClock(TimePoint time) const {
  return start_ns_ + static_cast<std::int64_t>(static_cast<double>(Nanoseconds(time)) / speed_);
}

void SendTimes::Write(const serve::SentTokens& tokens) {
  std::string rows;
  CsvLine line;
  const std::int64_t sent = OnSteadyClock(tokens.sent);
  for (const TimePoint due : tokens.due) {
    line.Word(tokens.request).Count(OnSteadyClock(due)).Count(sent).AppendTo(rows);
  }
  const std::lock_guard lock(mutex_);
  stream_.write(rows.data(), static_cast<std::streamsize>(rows.size()));
}

void SendTimes::Finish() {
  stream_.close();
  if (!stream_) throw std::system_error(errno, std::generic_category(), path_);
}

}  // namespace twin::apps
