// The digest of a run: 64 bits over all of its plans, and transfers between replicas. Equal digests
// mean equal decisions.
//
// The idea: "the simulator decides as the real system does" is checked by comparing 16 hexadecimal
// digits. A run is recorded, its events are fed to a fresh engine, and both digests must be equal;
// when they are not, a replay names the first plan that differs. Every plan is written in the
// canonical encoding of plan_encoding.h, which holds decisions alone, no times, so that runs in
// different worlds can be compared, and its words are folded in by multiply-and-fold hashing (the
// mixing step of wyhash, Wang Yi). Two lanes take the pairs of words in turn, so that one
// multiplication overlaps the next.
//
// Each replica has two lanes of its own: whether one replica plans before another follows from the
// events and is no decision. So replicas can be followed one after the other, or several at once.
//
// Easy to get wrong:
// - Lists need their lengths in the encoding, or two different plans can give the same words.
// - Enumerations are encoded by value: reordering one changes every digest. A change of the
//   encoding counts kPlanEncodingVersion up, which is part of the digest.
// - Equal digests show equal decisions for these events. Different events (other arrival times,
//   other step ends) may lead to other decisions without anything being wrong.
// - The hash is not cryptographic: it detects mistakes, not forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/hash.h"
#include "run/record/metric_writer.h"
#include "run/record/plan_encoding.h"
#include "run/record/run_observer.h"

namespace twin {

// Digest of the plans shown to it, equal on every machine, compiler and day. Cost: about 1 ns per
// work item; that of the operations where a plan says that it repeats the one before. Memory: 8
// bytes per work item of the latest plan of each replica.
class PlanDigest : public RunObserver {
 public:
  // Replicas from 0 to `replicas` - 1 may be shown from several threads at once, each from one
  // thread at a time. Further replicas are added when they plan.
  explicit PlanDigest(std::int32_t replicas = 1) : chains_(static_cast<std::size_t>(replicas)) {}

  void OnInstant(const Instant& /*instant*/) override {}
  void OnPlan(TimePoint now, const StepPlan& plan) override;
  [[nodiscard]] bool takes_streaks() const override { return true; }
  void OnStreak(const StreakPart& part) override;
  // Counts for the replica that receives it.
  void OnTransfer(TimePoint now, const KvTransfer& transfer) override;

  // Hash of the lanes of the first replica and of each further replica that did anything, and of
  // plans().
  [[nodiscard]] std::uint64_t value() const;
  [[nodiscard]] std::uint64_t plans() const;
  // value() as 16 lower-case hexadecimal digits.
  [[nodiscard]] std::string text() const { return HexText(value()); }
  void Summarise(const MetricWriter& out) const {
    out.Add("digest", text(), "", "64-bit hash of all plans: equal digests mean equal decisions");
  }

 private:
  struct Chain {
    std::uint64_t even = 0x243F6A8885A308D3ull;  // digits of pi
    std::uint64_t odd = 0x13198A2E03707344ull;
    std::uint64_t plans = 0;
    PlanEncoder encoder;

    // Nothing was folded in.
    [[nodiscard]] bool empty() const { return even == Chain{}.even && odd == Chain{}.odd; }
  };

  // Folds the words in that encode(sink) gives to its sink.
  template <class Encode>
  static void Fold(Chain& chain, Encode encode);
  [[nodiscard]] Chain& ChainOf(std::int32_t replica) {
    const auto i = static_cast<std::size_t>(replica);
    if (i >= chains_.size()) [[unlikely]]
      chains_.resize(i + 1);
    return chains_[i];
  }

  std::vector<Chain> chains_;  // by replica, at least one
};

}  // namespace twin
