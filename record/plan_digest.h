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
// Easy to get wrong:
// - Lists need their lengths in the encoding, or two different plans can give the same words.
// - Enumerations are encoded by value: reordering one changes every digest. A change of the
//   encoding counts kPlanEncodingVersion up, which is part of the digest.
// - Equal digests show equal decisions for these events. Different events (other arrival times,
//   other step ends) may lead to other decisions without anything being wrong.
// - The hash is not cryptographic: it detects mistakes, not forgery.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/hash.h"
#include "core/hex.h"
#include "record/plan_encoding.h"
#include "record/run_observer.h"

namespace twin {

// The same value on every machine, compiler and day. Cost: about 1 ns per work item.
class PlanDigest : public RunObserver {
 public:
  void OnInstant(const Instant& /*instant*/) override {}
  void OnPlan(TimePoint now, const StepPlan& plan) override;
  void OnTransfer(TimePoint now, const KvTransfer& transfer) override;
  // The same as OnPlan for so many plans, of which `words` are the encodings.
  void OnEncoded(std::span<const std::uint64_t> words, std::uint64_t plans);

  [[nodiscard]] std::uint64_t value() const {
    return MixWords(MixWords(even_, odd_), plans_ ^ (kPlanEncodingVersion << 56));
  }
  [[nodiscard]] std::uint64_t plans() const { return plans_; }
  // value() as 16 lower-case hexadecimal digits.
  [[nodiscard]] std::string text() const { return HexText(value()); }

 private:
  std::uint64_t even_ = 0x243F6A8885A308D3ull;  // digits of pi
  std::uint64_t odd_ = 0x13198A2E03707344ull;
  std::uint64_t plans_ = 0;
};

}  // namespace twin
