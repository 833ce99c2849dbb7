#include "run/record/plan_digest.h"

#include <utility>

namespace twin {

template <class Encode>
void PlanDigest::Fold(Chain& chain, Encode encode) {
  std::uint64_t next = chain.even;
  std::uint64_t other = chain.odd;
  encode([&](std::uint64_t first, std::uint64_t second) {
    const std::uint64_t mixed = MixWords(first, second ^ next);
    next = std::exchange(other, mixed);
  });
  chain.even = next;
  chain.odd = other;
}

void PlanDigest::OnPlan(TimePoint /*now*/, const StepPlan& plan) {
  Chain& chain = ChainOf(plan.replica);
  Fold(chain, [&](auto&& sink) { chain.encoder.Encode(plan, sink); });
  ++chain.plans;
}

void PlanDigest::OnStreak(const StreakPart& part) {
  Chain& chain = ChainOf(part.replica);
  Fold(chain, [&](auto&& sink) { chain.encoder.Encode(part, sink); });
  chain.plans += part.moments.size();
}

void PlanDigest::OnTransfer(TimePoint /*now*/, const KvTransfer& transfer) {
  Chain& chain = ChainOf(transfer.to);
  Fold(chain, [&](auto&& sink) { EncodeTransfer(transfer, sink); });
}

std::uint64_t PlanDigest::value() const {
  std::uint64_t folded = 0;
  for (const Chain& chain : chains_) {
    // Plans encode their replica, so that a replica that has done nothing can be passed over.
    if (&chain != &chains_.front() && chain.empty()) continue;
    folded = MixWords(chain.even ^ folded, chain.odd);
  }
  return MixWords(folded, plans() ^ (kPlanEncodingVersion << 56));
}

std::uint64_t PlanDigest::plans() const {
  std::uint64_t sum = 0;
  for (const Chain& chain : chains_) sum += chain.plans;
  return sum;
}

}  // namespace twin
