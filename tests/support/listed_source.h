// Requests that a test writes down.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/arrival_source.h"

namespace twin::testing {

// Requests in order of arrival, and what the world says of them.
class ListedSource final : public ArrivalSource {
 public:
  explicit ListedSource(std::vector<TracedRequest> requests) : requests_(std::move(requests)) {}

  const TracedRequest* Peek() override {
    return taken_ < requests_.size() ? &requests_[taken_] : nullptr;
  }
  void Take() override { ++taken_; }
  void OnDone(RequestId id, TimePoint now) override { done.emplace_back(id, now); }

  std::vector<std::pair<RequestId, TimePoint>> done;

 private:
  std::vector<TracedRequest> requests_;
  std::size_t taken_ = 0;
};

// A request whose client asks for exactly as many tokens as it gets.
inline TracedRequest Asked(TimePoint arrival, std::int32_t prompt_tokens,
                           std::int32_t output_tokens) {
  TracedRequest request;
  request.arrival = arrival;
  request.prompt_tokens = prompt_tokens;
  request.output_tokens = output_tokens;
  request.max_output_tokens = output_tokens;
  return request;
}

}  // namespace twin::testing
