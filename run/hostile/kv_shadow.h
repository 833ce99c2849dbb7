// A model of a device's KV cache that stores a word per token instead of tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sched/kv_transfer.h"
#include "sched/step_plan.h"

namespace twin {

// The content of one token of a request.
using TokenWord = std::function<std::uint64_t(RequestId, std::int32_t position)>;

// The message of an error of a shadow.
std::string ShadowFault(RequestId id, const std::string& what);

// Executes the block operations and the work of launched plans, in order, and detects
//   - a block handed to two requests at once, other than by a prefix hit,
//   - work on positions that no block covers,
//   - attention over slots that do not hold the request's own tokens.
class KvShadow {
 public:
  KvShadow(std::int32_t block_size, std::int32_t blocks, std::int32_t host_blocks);

  // Returns the first error of the plan, or an empty string.
  [[nodiscard]] std::string Execute(const StepPlan& plan, const TokenWord& word);
  // Detects the first two of them, without regard to what the slots hold.
  [[nodiscard]] std::string Cover(const StepPlan& plan);

  // A transfer from here begins, or one to here: its blocks may be given to nobody else until it
  // has ended.
  void BeginSending(const KvTransfer& transfer);
  [[nodiscard]] std::string BeginReceiving(const KvTransfer& transfer);
  // It ends: the content is copied. Detects blocks that do not hold the request's own tokens.
  [[nodiscard]] std::string EndTransfer(const KvTransfer& transfer, KvShadow& target,
                                        const TokenWord& word);

 private:
  using Blocks = std::vector<std::vector<std::uint64_t>>;

  [[nodiscard]] std::string ApplyAll(const StepPlan& plan);
  [[nodiscard]] std::string Apply(const KvOperation& operation);
  [[nodiscard]] std::string Write(const WorkItem& item, const TokenWord& word);
  [[nodiscard]] std::string Read(const WorkItem& item, const TokenWord& word);

  std::size_t block_size_;
  Blocks device_;
  Blocks host_;
  std::vector<std::int32_t> sending_;                                   // transfers, per block
  std::vector<std::int64_t> receiving_;                                 // a request, or -1
  std::vector<std::int32_t> holders_;                                   // per device block
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> tables_;  // per request
};

}  // namespace twin
