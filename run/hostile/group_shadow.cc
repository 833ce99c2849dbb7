#include "run/hostile/group_shadow.h"

#include <algorithm>

#include "core/hash.h"

namespace twin {
namespace {

std::uint64_t StateWord(RequestId id, std::int32_t tokens, const TokenWord& word) {
  std::uint64_t state = 0;
  for (std::int32_t i = 0; i < tokens; ++i) state = MixWords(state, word(id, i));
  return state;
}

// The first position that the token at `position` can see.
std::int32_t FirstInSight(const KvGroup& group, std::int32_t position) {
  switch (group.kind) {
    case KvGroupKind::kWindow:
      return std::max(0, position - group.span + 1);
    case KvGroupKind::kChunked:
      return position - position % group.span;
    default:
      return 0;
  }
}

}  // namespace

GroupShadow::GroupShadow(const KvGroups& groups, std::int32_t blocks)
    : groups_(groups), holders_(static_cast<std::size_t>(blocks)) {
  std::int32_t words = 1;
  for (const KvGroup& group : groups.groups) words = std::max(words, group.block_size);
  device_.assign(holders_.size(), std::vector<std::uint64_t>(static_cast<std::size_t>(words)));
}

std::string GroupShadow::Execute(const StepPlan& plan, const TokenWord& word) {
  for (const KvOperation& operation : plan.kv) {
    if (std::string fault = Apply(operation); !fault.empty()) return fault;
  }
  // All items begin before any of them ends: a state is not there for others in the same step.
  for (const WorkItem& item : plan.work) {
    if (std::string fault = BeginStates(item, word); !fault.empty()) return fault;
  }
  for (const WorkItem& item : plan.work) {
    if (std::string fault = Write(item, word); !fault.empty()) return fault;
  }
  for (const WorkItem& item : plan.work) {
    if (std::string fault = Read(item, word); !fault.empty()) return fault;
  }
  return {};
}

std::string GroupShadow::Apply(const KvOperation& operation) {
  using Kind = KvOperation::Kind;
  std::vector<Table>& tables = tables_[Index(operation.request)];
  tables.resize(groups_.groups.size());
  if (operation.kind == Kind::kRelease) {
    for (Table& table : tables) {
      for (const std::int32_t block : table) {
        if (block != kNoBlock) --holders_.at(static_cast<std::size_t>(block));
      }
      table.clear();
    }
    return {};
  }
  Table& table = tables.at(Index(operation.other));
  const auto block = static_cast<std::int32_t>(operation.block);
  switch (operation.kind) {
    case Kind::kSkipIn:
      table.push_back(kNoBlock);
      return {};
    case Kind::kAllocateIn:
      if (holders_.at(Index(operation.block)) != 0) {
        return ShadowFault(operation.request, "block " + std::to_string(block) + " is not free");
      }
      [[fallthrough]];
    case Kind::kAttachIn:
      ++holders_.at(Index(operation.block));
      table.push_back(block);
      return {};
    case Kind::kDropFrom: {
      const auto place = std::ranges::find(table, block);
      if (place == table.end()) return ShadowFault(operation.request, "drops a block not its own");
      --holders_.at(Index(operation.block));
      *place = kNoBlock;
      return {};
    }
    default:
      return ShadowFault(operation.request, "an operation for requests with one table");
  }
}

std::int32_t GroupShadow::BlockAt(RequestId id, std::size_t group, std::int32_t entry) {
  const std::vector<Table>& tables = tables_[Index(id)];
  if (tables.empty() || entry >= std::ssize(tables[group])) return kNoBlock;
  return tables[group][static_cast<std::size_t>(entry)];
}

std::int32_t GroupShadow::StateBlock(RequestId id, std::size_t group, std::int32_t tokens) {
  const KvGroup& kind = groups_.groups[group];
  const bool one = kind.states == StateBlocks::kOne;
  return BlockAt(id, group, one ? 0 : (tokens - 1) / kind.block_size);
}

std::string GroupShadow::BeginStates(const WorkItem& item, const TokenWord& word) {
  if (item.start == 0) return {};
  for (std::size_t g = 0; g < groups_.groups.size(); ++g) {
    if (groups_.groups[g].kind != KvGroupKind::kState) continue;
    const std::int32_t block = StateBlock(item.request, g, item.start);
    if (block == kNoBlock) return ShadowFault(item.request, "no state to begin from");
    if (device_[static_cast<std::size_t>(block)][0] != StateWord(item.request, item.start, word)) {
      return ShadowFault(item.request, "begins from another state");
    }
  }
  return {};
}

std::string GroupShadow::Write(const WorkItem& item, const TokenWord& word) {
  const std::int32_t end = item.start + item.tokens;
  for (std::size_t g = 0; g < groups_.groups.size(); ++g) {
    const KvGroup& group = groups_.groups[g];
    if (group.kind == KvGroupKind::kState) {
      const std::int32_t block = StateBlock(item.request, g, end);
      if (block == kNoBlock) return ShadowFault(item.request, "no block for its state");
      device_[static_cast<std::size_t>(block)][0] = StateWord(item.request, end, word);
      continue;
    }
    for (std::int32_t i = item.start; i < end; ++i) {
      const std::int32_t block = BlockAt(item.request, g, i / group.block_size);
      if (block == kNoBlock) return ShadowFault(item.request, "work beyond its blocks");
      device_[static_cast<std::size_t>(block)][static_cast<std::size_t>(i % group.block_size)] =
          word(item.request, i);
    }
  }
  return {};
}

std::string GroupShadow::Read(const WorkItem& item, const TokenWord& word) {
  for (std::size_t g = 0; g < groups_.groups.size(); ++g) {
    const KvGroup& group = groups_.groups[g];
    if (group.kind == KvGroupKind::kState) continue;
    for (std::int32_t i = FirstInSight(group, item.start); i < item.start + item.tokens; ++i) {
      const std::int32_t block = BlockAt(item.request, g, i / group.block_size);
      const std::string position =
          "position " + std::to_string(i) + " of group " + std::to_string(g);
      if (block == kNoBlock) return ShadowFault(item.request, position + " has no block");
      const auto& slots = device_[static_cast<std::size_t>(block)];
      if (slots[static_cast<std::size_t>(i % group.block_size)] != word(item.request, i)) {
        return ShadowFault(item.request, position + " holds another token's keys");
      }
    }
  }
  return {};
}

}  // namespace twin
