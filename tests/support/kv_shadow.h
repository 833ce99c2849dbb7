// What a device's KV cache would hold: executes plans on words instead of tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sched/step_plan.h"

namespace twin::testing {

// The content of one token of a request.
using TokenWord = std::function<std::uint64_t(RequestId, std::int32_t position)>;

// Follows the block operations and the work of launched plans, in order, and finds
//   - a block handed to two requests at once, other than by a prefix hit,
//   - work on positions that no block covers,
//   - attention over slots that do not hold the request's own tokens.
class KvShadow {
 public:
  KvShadow(std::int32_t block_size, std::int32_t blocks, std::int32_t host_blocks);

  // The first fault of the plan in words, or nothing.
  [[nodiscard]] std::string Execute(const StepPlan& plan, const TokenWord& word);

 private:
  using Blocks = std::vector<std::vector<std::uint64_t>>;

  [[nodiscard]] std::string Apply(const KvOperation& operation);
  [[nodiscard]] std::string Write(const WorkItem& item, const TokenWord& word);
  [[nodiscard]] std::string Read(const WorkItem& item, const TokenWord& word);

  std::size_t block_size_;
  Blocks device_;
  Blocks host_;
  std::vector<std::int32_t> holders_;                                   // per device block
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> tables_;  // per request
};

}  // namespace twin::testing
