#include "record/plan_digest.h"

#include <cstddef>
#include <utility>

namespace twin {

void PlanDigest::OnPlan(TimePoint /*now*/, const StepPlan& plan) {
  std::uint64_t next = even_;
  std::uint64_t other = odd_;
  EncodePlan(plan, [&](std::uint64_t first, std::uint64_t second) {
    const std::uint64_t mixed = MixWords(first, second ^ next);
    next = std::exchange(other, mixed);
  });
  even_ = next;
  odd_ = other;
  ++plans_;
}

void PlanDigest::OnEncoded(std::span<const std::uint64_t> words, std::uint64_t plans) {
  std::uint64_t next = even_;
  std::uint64_t other = odd_;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const std::uint64_t mixed = MixWords(words[i], words[i + 1] ^ next);
    next = std::exchange(other, mixed);
  }
  even_ = next;
  odd_ = other;
  plans_ += plans;
}

void PlanDigest::OnTransfer(TimePoint /*now*/, const KvTransfer& transfer) {
  EncodeTransfer(transfer, [&](std::uint64_t first, std::uint64_t second) {
    const std::uint64_t mixed = MixWords(first, second ^ even_);
    even_ = std::exchange(odd_, mixed);
  });
}

}  // namespace twin
