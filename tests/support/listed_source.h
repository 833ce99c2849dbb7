// Arrivals from a list.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/arrival_source.h"

namespace twin::testing {

// Takes requests in order of arrival, and keeps the ends that the world reports.
class ListedSource final : public ArrivalSource {
 public:
  explicit ListedSource(std::vector<TracedRequest> requests) : requests_(std::move(requests)) {}

  const TracedRequest* Peek() override {
    return taken_ < requests_.size() ? &requests_[taken_] : nullptr;
  }
  void Take() override { ++taken_; }
  void OnDone(RequestId id, TimePoint now, std::int32_t answer_tokens) override {
    done.emplace_back(id, now);
    answers.push_back(answer_tokens);
  }

  std::vector<std::pair<RequestId, TimePoint>> done;
  std::vector<std::int32_t> answers;  // their tokens, in the order of `done`

 private:
  std::vector<TracedRequest> requests_;
  std::size_t taken_ = 0;
};

// A request whose output limit equals its output length.
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
