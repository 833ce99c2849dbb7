// When the tokens of a served run were due, and when their bytes were given to the socket.
#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>

#include "apps/serve/front_options.h"
#include "apps/serve/service/service.h"
#include "core/time.h"

namespace twin::apps {

// Writes a row for each token of a stream: "request,due_ns,sent_ns". Rows of one request are in the
// order of its tokens. Times are nanoseconds of the machine's steady clock (CLOCK_MONOTONIC), so
// that a client on the same machine can compare its own with them.
class SendTimes {
 public:
  // Reads `service` here only; it must have started. Throws std::system_error if the file cannot be
  // written.
  SendTimes(const std::filesystem::path& file, const run::Service& service);

  // From any thread.
  void Write(const serve::SentTokens& tokens);
  // Closes the file. Throws std::system_error if a row could not be written. REQUIRES: called once,
  // after all rows.
  void Finish();

 private:
  [[nodiscard]] std::int64_t OnSteadyClock(TimePoint time) const;

  const double speed_;
  const std::int64_t start_ns_;  // time zero of the service, on the steady clock
  const std::string path_;
  std::mutex mutex_;  // guards stream_
  std::ofstream stream_;
};

}  // namespace twin::apps
