// A model of a device's KV cache with tables for several KV groups, which stores words instead of
// tensors.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/kv_groups.h"
#include "run/hostile/kv_shadow.h"
#include "sched/step_plan.h"

namespace twin {

// As KvShadow. Blocks of attention groups hold a word per token; a block of a state group holds
// one word, for all tokens that the state has taken in. Detects
//   - a block handed to two requests at once, or two tables, other than by a prefix hit,
//   - work on positions that no block covers,
//   - attention over slots in sight that do not hold the request's own tokens,
//   - work that begins from another state than that of the tokens before it.
class GroupShadow {
 public:
  GroupShadow(const KvGroups& groups, std::int32_t blocks);

  // Returns the first error of the plan, or an empty string.
  [[nodiscard]] std::string Execute(const StepPlan& plan, const TokenWord& word);

 private:
  static constexpr std::int32_t kNoBlock = -1;
  using Table = std::vector<std::int32_t>;

  [[nodiscard]] std::string Apply(const KvOperation& operation);
  [[nodiscard]] std::string BeginStates(const WorkItem& item, const TokenWord& word);
  [[nodiscard]] std::string Write(const WorkItem& item, const TokenWord& word);
  [[nodiscard]] std::string Read(const WorkItem& item, const TokenWord& word);
  // The block that holds the group's state after the first `tokens` tokens, or kNoBlock.
  [[nodiscard]] std::int32_t StateBlock(RequestId id, std::size_t group, std::int32_t tokens);
  [[nodiscard]] std::int32_t BlockAt(RequestId id, std::size_t group, std::int32_t entry);

  KvGroups groups_;
  std::vector<std::vector<std::uint64_t>> device_;
  std::vector<std::int32_t> holders_;  // per block
  std::unordered_map<std::uint32_t, std::vector<Table>> tables_;
};

}  // namespace twin
