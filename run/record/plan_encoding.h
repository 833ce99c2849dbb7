// The canonical encoding of a plan's decisions: decisions are equal if their encodings are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "sched/kv_transfer.h"
#include "sched/step_plan.h"
#include "sched/streak_part.h"

namespace twin {

// Increased whenever the encoding changes; part of every digest.
constexpr std::uint64_t kPlanEncodingVersion = 2;

constexpr std::uint64_t PackWord(std::uint32_t low, std::uint32_t high) {
  return low | (std::uint64_t{high} << 32);
}

// Writes the plans of one replica, in their order, as pairs of 64-bit words,
// [low 32 bits | high 32 bits]:
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
// A plan repeats the one before it if it decodes one token of the same requests in the same order,
// each where its latest item ended, has the same padding rows, and empty lists otherwise but for
// `kv`. It is written as
//
//   header       id + replica * 2^40             [2^32 - 1 | kv]
//   kv           as above
//
// Enumerations count from 0 in the order of their declaration; negative numbers are two's
// complement. Totals, free blocks and the census follow from the decisions and are left out.
// Injective for steps below 2^40: equal sequences mean equal decisions.
class PlanEncoder {
 public:
  // Calls sink(first, second) with each pair. Cost: that of the lists; of a plan with `repeats`,
  // that of `kv` alone.
  template <class Sink>
  void Encode(const StepPlan& plan, Sink&& sink);
  // The plans of the part, one after the other.
  template <class Sink>
  void Encode(const StreakPart& part, Sink&& sink);

 private:
  [[nodiscard]] bool Repeats(const StepPlan& plan) const;
  void Remember(const StepPlan& plan);

  // The items of the latest plan that was written with its lists: [request | start + tokens].
  std::vector<std::uint64_t> ends_;
  std::vector<RequestId> padding_rows_;  // of that plan
  std::uint32_t repeats_ = 0;            // plans since
};

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

// The length of `work` in the header of a plan that repeats the one before it.
inline constexpr std::uint32_t kRepeated = 0xFFFFFFFF;

// Whether all lists but `work`, `kv` and `padding_rows` are empty and no item has drafts.
inline bool HasOnlyRows(const StepPlan& plan) {
  return plan.preempted.empty() && plan.admitted.empty() && plan.resumed.empty() &&
         plan.released.empty() && plan.rejected.empty() && plan.hits.empty() &&
         plan.totals.draft_items == 0;
}

// The first word of a plan.
inline std::uint64_t IdWord(StepId id, std::int32_t replica) {
  return Index(id) + (static_cast<std::uint64_t>(replica) << 40);
}

template <class Sink>
void EncodeOperations(std::span<const KvOperation> kv, Sink& sink) {
  for (const KvOperation& op : kv) {
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

inline bool PlanEncoder::Repeats(const StepPlan& plan) const {
  if (plan.repeats.is_set) return true;
  if (plan.work.size() != ends_.size() || ends_.empty() || !encoding::HasOnlyRows(plan))
    return false;
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    const std::uint64_t place = ends_[i] + (std::uint64_t{repeats_} << 32);
    if (encoding::PlaceWord(plan.work[i]) != place) return false;
    if (!encoding::IsPlainDecode(plan.work[i])) return false;
  }
  return plan.padding_rows == padding_rows_;
}

inline void PlanEncoder::Remember(const StepPlan& plan) {
  repeats_ = 0;
  padding_rows_ = plan.padding_rows;
  ends_.resize(plan.work.size());
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    const WorkItem& item = plan.work[i];
    ends_[i] = PackWord(Index(item.request), static_cast<std::uint32_t>(item.start + item.tokens));
  }
}

template <class Sink>
void PlanEncoder::Encode(const StepPlan& plan, Sink&& sink) {
  using encoding::Length;
  const std::uint64_t id = encoding::IdWord(plan.id, plan.replica);
  if (Repeats(plan)) {
    ++repeats_;
    sink(id, PackWord(encoding::kRepeated, Length(plan.kv)));
    encoding::EncodeOperations(plan.kv, sink);
    return;
  }
  Remember(plan);
  sink(id, PackWord(Length(plan.work), Length(plan.kv)));
  const bool only_work = encoding::HasOnlyRows(plan) && plan.padding_rows.empty();
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
  encoding::EncodeOperations(plan.kv, sink);
  if (!only_work) encoding::EncodeRareLists(plan, sink);
}

template <class Sink>
void PlanEncoder::Encode(const StreakPart& part, Sink&& sink) {
  std::uint64_t id = encoding::IdWord(part.first_launched, part.replica);
  std::size_t kv_begin = 0;
  for (const StreakPart::Moment& moment : part.moments) {
    const std::span kv = std::span(part.kv).subspan(kv_begin, moment.kv_end - kv_begin);
    kv_begin = moment.kv_end;
    sink(id++, PackWord(encoding::kRepeated, encoding::Length(kv)));
    encoding::EncodeOperations(kv, sink);
  }
  repeats_ += static_cast<std::uint32_t>(part.moments.size());
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
