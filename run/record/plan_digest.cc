#include "run/record/plan_digest.h"

#include <utility>

namespace twin {

void PlanDigest::OnPlan(TimePoint /*now*/, const StepPlan& plan) {
  Chain& chain = ChainOf(plan.replica);
  std::uint64_t next = chain.even;
  std::uint64_t other = chain.odd;
  EncodePlan(plan, [&](std::uint64_t first, std::uint64_t second) {
    const std::uint64_t mixed = MixWords(first, second ^ next);
    next = std::exchange(other, mixed);
  });
  chain.even = next;
  chain.odd = other;
  ++chain.plans;
}

void PlanDigest::OnTransfer(TimePoint /*now*/, const KvTransfer& transfer) {
  Chain& chain = ChainOf(transfer.to);
  EncodeTransfer(transfer, [&](std::uint64_t first, std::uint64_t second) {
    const std::uint64_t mixed = MixWords(first, second ^ chain.even);
    chain.even = std::exchange(chain.odd, mixed);
  });
}

std::uint64_t PlanDigest::value() const {
  std::uint64_t folded = 0;
  for (const Chain& chain : chains_) {
    // Plans encode their replica, so that a replica that has done nothing can be passed over.
    if (&chain != &chains_.front() && chain == Chain{}) continue;
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
