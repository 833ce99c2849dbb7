// The state and the batch as tests of policies write them down (scene.h).
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <utility>
#include <vector>

#include "core/time.h"
#include "sched/step_plan.h"

namespace twin::testing {

// The part of a step for one request.
struct BatchItem {
  char request = 'A';
  Phase phase = Phase::kPrefill;
  std::int32_t tokens = 0;

  bool operator==(const BatchItem&) const = default;
};

inline BatchItem Prefill(char request, std::int32_t tokens) {
  return {request, Phase::kPrefill, tokens};
}
inline BatchItem Decode(char request) { return {request, Phase::kDecode, 1}; }

// The items of a step, in the order of the batch; shown as "A:D1 B:P512".
struct Batch {
  std::vector<BatchItem> items;

  Batch() = default;
  Batch(std::initializer_list<BatchItem> list) : items(list) {}
  [[nodiscard]] bool empty() const { return items.empty(); }
  bool operator==(const Batch&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const Batch& batch) {
    const char* separator = "";
    for (const BatchItem& item : batch.items) {
      const char phase = item.phase == Phase::kDecode ? 'D' : 'P';
      out << std::exchange(separator, " ")
          << fmt::format("{}:{}{}", item.request, phase, item.tokens);
    }
    return out << (batch.empty() ? "nothing" : "");
  }
};

struct SceneRequest {
  std::int32_t prompt = 1;
  std::int32_t output = 100;  // tokens after which it ends; also the client's limit
  std::int32_t priority = 0;  // smaller = more important
  std::uint32_t tenant = 0;
  std::int32_t predicted = -1;   // output tokens; -1 = no prediction
  Duration after = Duration{0};  // it arrives so much later than the scene is set
};

struct SceneState {
  // Arrive together and are served until each has emitted a token.
  std::vector<SceneRequest> running = {};
  std::vector<SceneRequest> waiting = {};  // arrive then
};

}  // namespace twin::testing
