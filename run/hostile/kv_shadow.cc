#include "run/hostile/kv_shadow.h"

#include <algorithm>

namespace twin {

std::string ShadowFault(RequestId id, const std::string& what) {
  return "request " + std::to_string(Index(id)) + ": " + what;
}

KvShadow::KvShadow(std::int32_t block_size, std::int32_t blocks, std::int32_t host_blocks)
    : block_size_(static_cast<std::size_t>(block_size)),
      device_(static_cast<std::size_t>(blocks), std::vector<std::uint64_t>(block_size_)),
      host_(static_cast<std::size_t>(host_blocks), std::vector<std::uint64_t>(block_size_)),
      sending_(device_.size()),
      receiving_(device_.size(), -1),
      holders_(device_.size()) {}

std::string KvShadow::ApplyAll(const StepPlan& plan) {
  for (const KvOperation& operation : plan.kv) {
    if (std::string fault = Apply(operation); !fault.empty()) return fault;
  }
  // Operations since the latest plan come with this one, so that a block may have had other holders
  // when its transfer began.
  for (std::size_t block = 0; block < receiving_.size(); ++block) {
    if (receiving_[block] < 0) continue;
    const std::vector<std::size_t>& table = tables_[static_cast<std::uint32_t>(receiving_[block])];
    const auto own = std::count(table.begin(), table.end(), block);
    if (holders_[block] != own) return "a block that receives keys is held by another request";
  }
  return {};
}

std::string KvShadow::Execute(const StepPlan& plan, const TokenWord& word) {
  if (std::string fault = ApplyAll(plan); !fault.empty()) return fault;
  // Within one forward pass a token may attend to what another item of the pass has written.
  for (const WorkItem& item : plan.work) {
    if (std::string fault = Write(item, word); !fault.empty()) return fault;
  }
  for (const WorkItem& item : plan.work) {
    if (std::string fault = Read(item, word); !fault.empty()) return fault;
  }
  return {};
}

std::string KvShadow::Cover(const StepPlan& plan) {
  if (std::string fault = ApplyAll(plan); !fault.empty()) return fault;
  const auto nothing = [](RequestId, std::int32_t) { return std::uint64_t{0}; };
  for (const WorkItem& item : plan.work) {
    if (std::string fault = Write(item, nothing); !fault.empty()) return fault;
  }
  return {};
}

void KvShadow::BeginSending(const KvTransfer& transfer) {
  for (const BlockId block : transfer.source) ++sending_.at(Index(block));
}

std::string KvShadow::BeginReceiving(const KvTransfer& transfer) {
  for (const BlockId id : transfer.target) {
    const std::size_t block = Index(id);
    if (receiving_.at(block) >= 0 || sending_[block] > 0) {
      return ShadowFault(transfer.request, "receives in a block of another transfer");
    }
    receiving_[block] = Index(transfer.request);
  }
  return {};
}

std::string KvShadow::EndTransfer(const KvTransfer& transfer, KvShadow& target,
                                  const TokenWord& word) {
  for (const BlockId block : transfer.source) --sending_.at(Index(block));
  for (const BlockId block : transfer.target) target.receiving_.at(Index(block)) = -1;
  for (std::int32_t i = transfer.start; i < transfer.tokens; ++i) {
    const auto at = static_cast<std::size_t>(i - transfer.start);
    const std::size_t from = Index(transfer.source[at / block_size_]);
    const std::size_t to = Index(transfer.target[at / block_size_]);
    const std::uint64_t content = device_[from][at % block_size_];
    if (content != word(transfer.request, i)) {
      return ShadowFault(transfer.request, "sends another token's keys");
    }
    target.device_[to][at % block_size_] = content;
  }
  return {};
}

std::string KvShadow::Apply(const KvOperation& operation) {
  std::vector<std::size_t>& table = tables_[Index(operation.request)];
  const std::size_t block = Index(operation.block);
  const std::size_t other = Index(operation.other);
  switch (operation.kind) {
    case KvOperation::Kind::kSwapIn:
      device_.at(block) = host_.at(other);
      [[fallthrough]];
    case KvOperation::Kind::kAllocate:
      if (holders_.at(block) != 0) {
        return ShadowFault(operation.request, "block " + std::to_string(block) + " is not free");
      }
      if (sending_[block] > 0)
        return ShadowFault(operation.request, "took a block that is being sent");
      [[fallthrough]];
    case KvOperation::Kind::kAttach:
      ++holders_.at(block);
      table.push_back(block);
      return {};
    case KvOperation::Kind::kReplace: {
      const auto place = std::find(table.begin(), table.end(), other);
      if (place == table.end())
        return ShadowFault(operation.request, "replaced a block not its own");
      if (device_.at(block) != device_.at(other)) {
        return ShadowFault(operation.request, "replaced a block by one of other content");
      }
      --holders_.at(other);
      ++holders_.at(block);
      *place = block;
      return {};
    }
    case KvOperation::Kind::kRelease:
      for (const std::size_t held : table) --holders_[held];
      table.clear();
      return {};
    case KvOperation::Kind::kSwapOut:
      if (table.empty() || table.front() != block) {
        return ShadowFault(operation.request, "swapped out of order");
      }
      host_.at(other) = device_.at(block);
      --holders_[block];
      table.erase(table.begin());
      return {};
    case KvOperation::Kind::kAllocateIn:
    case KvOperation::Kind::kAttachIn:
    case KvOperation::Kind::kSkipIn:
    case KvOperation::Kind::kDropFrom:
      return ShadowFault(operation.request, "an operation for requests with several tables");
  }
  return "an unknown operation";
}

std::string KvShadow::Write(const WorkItem& item, const TokenWord& word) {
  const std::vector<std::size_t>& table = tables_[Index(item.request)];
  const auto end = static_cast<std::size_t>(item.start + item.tokens);
  if (end > table.size() * block_size_) return ShadowFault(item.request, "work beyond its blocks");
  for (auto i = static_cast<std::size_t>(item.start); i < end; ++i) {
    device_[table[i / block_size_]][i % block_size_] =
        word(item.request, static_cast<std::int32_t>(i));
  }
  return {};
}

std::string KvShadow::Read(const WorkItem& item, const TokenWord& word) {
  const std::vector<std::size_t>& table = tables_[Index(item.request)];
  const auto end = static_cast<std::size_t>(item.start + item.tokens);
  for (std::size_t i = 0; i < end; ++i) {
    if (device_[table[i / block_size_]][i % block_size_] !=
        word(item.request, static_cast<std::int32_t>(i))) {
      return ShadowFault(item.request,
                         "position " + std::to_string(i) + " holds another token's keys");
    }
  }
  return {};
}

}  // namespace twin
