// A run's fingerprint: equal digests mean equal decisions.
#pragma once

#include <cstdint>
#include <string>

#include "core/hash.h"
#include "core/hex.h"
#include "record/plan_encoding.h"
#include "record/run_observer.h"

namespace twin {

// A stable 64-bit hash over the canonical encoding of all plans, in order. It does not depend on
// times. Two lanes take the pairs in turn, so that one multiplication overlaps the next.
// Cost: about 1 ns per work item.
class PlanDigest : public RunObserver {
 public:
  void OnInstant(const Instant& /*instant*/) override {}
  void OnPlan(TimePoint now, const StepPlan& plan) override;

  [[nodiscard]] std::uint64_t value() const {
    return MixWords(MixWords(even_, odd_), plans_ ^ (kPlanEncodingVersion << 56));
  }
  [[nodiscard]] std::uint64_t plans() const { return plans_; }
  // value() as 16 hexadecimal digits.
  [[nodiscard]] std::string text() const { return HexText(value()); }

 private:
  std::uint64_t even_ = 0x243F6A8885A308D3ull;  // digits of pi
  std::uint64_t odd_ = 0x13198A2E03707344ull;
  std::uint64_t plans_ = 0;
};

}  // namespace twin
