// The canonical encoding of a plan's decisions: decisions are equal if their encodings are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sched/kv_transfer.h"
#include "sched/step_plan.h"

namespace twin {

// Increased whenever the encoding changes; part of every digest.
constexpr std::uint64_t kPlanEncodingVersion = 1;

constexpr std::uint64_t PackWord(std::uint32_t low, std::uint32_t high) {
  return low | (std::uint64_t{high} << 32);
}

// Calls sink(first, second) with pairs of 64-bit words, [low 32 bits | high 32 bits]:
//
//   header       id + replica * 2^40             [work | kv]          (lengths of the lists)
//                [preempted | admitted]          [resumed | released]
//                [padding_rows | rejected]       [hits | work items with drafts]
//
//   work         [request | start]               tokens + padded_tokens * 2^31
//                                                + phase * 2^62 + emits * 2^63
//
//   kv           [request | kind]                [block | other]
//
//   preempted    [request | how]                 1
//   admitted     request                         2
//   resumed      request                         3
//   released     request                         4
//   padding      request                         5
//   rejected     [request | reason]              6
//   hits         [request | tokens]              7
//   drafts       [request | drafts]              8            (of each work item that has any)
//
// Enumerations count from 0 in the order of their declaration; negative numbers are two's
// complement. Totals, free blocks and the census follow from the decisions and are left out.
// Injective for steps below 2^40: equal sequences mean equal decisions.
template <class Sink>
void EncodePlan(const StepPlan& plan, Sink&& sink);

// Encodes a transfer between replicas in the same way:
//
//                [request | from]                [to | start]
//                [tokens | blocks]               9
//   each block   [source | target]               10
template <class Sink>
void EncodeTransfer(const KvTransfer& transfer, Sink&& sink);

namespace encoding {

template <class List>
std::uint32_t Length(const List& list) {
  return static_cast<std::uint32_t>(list.size());
}

// The first word of a work item.
inline std::uint64_t PlaceWord(const WorkItem& item) {
  return PackWord(Index(item.request), static_cast<std::uint32_t>(item.start));
}

// The second word of any work item.
inline std::uint64_t AnySizeWord(const WorkItem& item) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(item.tokens)) +
         (static_cast<std::uint64_t>(static_cast<std::uint32_t>(item.padded_tokens)) << 31) +
         (static_cast<std::uint64_t>(item.phase) << 62) + (std::uint64_t{item.emits} << 63);
}

inline constexpr WorkItem kPlainDecode{
    .request = {}, .start = 0, .tokens = 1, .phase = Phase::kDecode, .emits = true};
inline constexpr std::uint64_t kPlainDecodeWord = 1 + (std::uint64_t{3} << 62);

// True if AnySizeWord(item) is kPlainDecodeWord, as for nearly all items. Compares the members from
// `tokens` to `emits` as bytes, which takes less time than computing the word.
inline bool IsPlainDecode(const WorkItem& item) {
  constexpr std::size_t kBegin = offsetof(WorkItem, tokens);
  constexpr std::size_t kSize = offsetof(WorkItem, emits) + sizeof(item.emits) - kBegin;
  static_assert(kSize == 2 * sizeof(std::int32_t) + sizeof(Phase) + sizeof(bool));
  return std::memcmp(reinterpret_cast<const std::byte*>(&item) + kBegin,
                     reinterpret_cast<const std::byte*>(&kPlainDecode) + kBegin, kSize) == 0;
}

inline std::uint64_t SizeWord(const WorkItem& item) {
  if (IsPlainDecode(item)) [[likely]]
    return kPlainDecodeWord;
  return AnySizeWord(item);
}

// Whether all lists but `work` and `kv` are empty and no item has drafts, as in most plans.
inline bool HasOnlyWork(const StepPlan& plan) {
  return plan.preempted.empty() && plan.admitted.empty() && plan.resumed.empty() &&
         plan.released.empty() && plan.padding_rows.empty() && plan.rejected.empty() &&
         plan.hits.empty() && plan.totals.draft_items == 0;
}

template <class Sink>
void EncodeOperations(const StepPlan& plan, Sink& sink) {
  for (const KvOperation& op : plan.kv) {
    sink(PackWord(Index(op.request), static_cast<std::uint32_t>(op.kind)),
         PackWord(static_cast<std::uint32_t>(op.block), static_cast<std::uint32_t>(op.other)));
  }
}

template <class Sink>
void EncodeRareLists(const StepPlan& plan, Sink& sink) {
  for (const Preemption& p : plan.preempted) {
    sink(PackWord(Index(p.request), static_cast<std::uint32_t>(p.how)), 1);
  }
  for (const RequestId id : plan.admitted) sink(Index(id), 2);
  for (const RequestId id : plan.resumed) sink(Index(id), 3);
  for (const RequestId id : plan.released) sink(Index(id), 4);
  for (const RequestId id : plan.padding_rows) sink(Index(id), 5);
  for (const Rejection& r : plan.rejected) {
    sink(PackWord(Index(r.request), static_cast<std::uint32_t>(r.reason)), 6);
  }
  for (const PrefixHit& hit : plan.hits) {
    sink(PackWord(Index(hit.request), static_cast<std::uint32_t>(hit.tokens)), 7);
  }
  if (plan.totals.draft_items == 0) return;
  for (const WorkItem& item : plan.work) {
    if (item.drafts > 0) sink(PackWord(Index(item.request), item.drafts), 8);
  }
}

}  // namespace encoding

template <class Sink>
void EncodePlan(const StepPlan& plan, Sink&& sink) {
  using encoding::Length;
  sink(Index(plan.id) + (static_cast<std::uint64_t>(plan.replica) << 40),
       PackWord(Length(plan.work), Length(plan.kv)));
  const bool only_work = encoding::HasOnlyWork(plan);
  if (only_work) {
    sink(0, 0);
    sink(0, 0);
  } else {
    sink(PackWord(Length(plan.preempted), Length(plan.admitted)),
         PackWord(Length(plan.resumed), Length(plan.released)));
    sink(PackWord(Length(plan.padding_rows), Length(plan.rejected)),
         PackWord(Length(plan.hits), static_cast<std::uint32_t>(plan.totals.draft_items)));
  }
  // By twos, so that a sink with two lanes need not swap them.
  std::size_t i = 0;
  for (; i + 2 <= plan.work.size(); i += 2) {
    sink(encoding::PlaceWord(plan.work[i]), encoding::SizeWord(plan.work[i]));
    sink(encoding::PlaceWord(plan.work[i + 1]), encoding::SizeWord(plan.work[i + 1]));
  }
  if (i < plan.work.size())
    sink(encoding::PlaceWord(plan.work[i]), encoding::SizeWord(plan.work[i]));
  encoding::EncodeOperations(plan, sink);
  if (!only_work) encoding::EncodeRareLists(plan, sink);
}

template <class Sink>
void EncodeTransfer(const KvTransfer& transfer, Sink&& sink) {
  const auto word = [](auto low, auto high) {
    return PackWord(static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(high));
  };
  sink(word(Index(transfer.request), transfer.from), word(transfer.to, transfer.start));
  sink(word(transfer.tokens, transfer.source.size()), 9);
  for (std::size_t i = 0; i < transfer.source.size(); ++i) {
    sink(word(transfer.source[i], transfer.target[i]), 10);
  }
}

}  // namespace twin
