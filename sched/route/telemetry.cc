#include "sched/route/telemetry.h"

#include <cstddef>

namespace twin {

Telemetry::Telemetry(std::int32_t replicas, Duration delay, std::int32_t block_size)
    : block_size_(block_size), reports_(delay) {
  const auto count = static_cast<std::size_t>(replicas);
  loads_.requests.resize(count);
  loads_.prompt_tokens.resize(count);
  loads_.unanswered.resize(count);
  loads_.blocks.resize(count);
}

void Telemetry::Receive(TimePoint now) {
  reports_.Receive(now, [this](const LoadReport& report) {
    const auto i = static_cast<std::size_t>(report.replica);
    loads_.requests[i] -= report.requests_left;
    loads_.unanswered[i] -= report.answered;
    loads_.prompt_tokens[i] -= report.prompt_tokens_computed;
    loads_.blocks[i] += report.blocks;
  });
}

void Telemetry::Send(TimePoint now, std::int32_t replica, const Request& request) {
  const auto i = static_cast<std::size_t>(replica);
  ++loads_.requests[i];
  ++loads_.unanswered[i];
  loads_.prompt_tokens[i] += request.prompt_tokens;
  if (block_size_ == 0) return;
  // Until a report tells what it really holds.
  const std::int64_t blocks = (std::int64_t{request.prompt_tokens} + block_size_ - 1) / block_size_;
  loads_.blocks[i] += blocks;
  reports_.Send(now, {.replica = replica, .blocks = -blocks});
}

void Telemetry::Report(TimePoint now, const LoadReport& report) {
  reports_.Send(now, report);
  Receive(now);
}

}  // namespace twin
