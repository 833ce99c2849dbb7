// The encodings of plans in few words, for those who keep many plans for a while.
//
// Nearly every step of a replica decodes what the step before decoded, each item one token later.
// Such a step is kept as its block operations alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "record/plan_digest.h"
#include "sched/step_plan.h"

namespace twin {

// Packed plans, one after the other, of any replicas. A plan is a head and its words:
//
//   whole      [0 | words]    its encoding (plan_encoding.h)
//   repeated   [1 | words]    its block operations; the rest is the encoding of the same replica's
//                             plan before, with the next id and every item one token later
struct PackedPlans {
  std::vector<std::uint64_t> words;  // of which `used` are used
  std::size_t used = 0;

  // Keeps the memory.
  void Clear() { used = 0; }
};

// Packs plans of one replica after those of another.
class PlanPacker {
 public:
  // The next plan is packed whole: those before go elsewhere.
  void Restart() { replica_ = kNone; }

  // REQUIRES: `packed` is that of the plan before, or Restart was called.
  void Add(const StepPlan& plan, PackedPlans& packed);

 private:
  static constexpr std::int32_t kNone = -1;

  // Whether the plan does what the one before did, each item one token later, and takes blocks.
  [[nodiscard]] bool Repeats(const StepPlan& plan, const PackedPlans& packed) const;

  std::int32_t replica_ = kNone;  // of the latest plan
  StepId latest_{};               // that plan
  StepId whole_{};                // the latest one that was packed whole
  std::size_t work_ = 0;          // where the words of its work begin
  std::size_t items_ = 0;         // of its work
};

// Unpacks plans of many replicas, those of a replica in their order. Memory: a plan per replica.
class PlanUnpacker {
 public:
  // Shows the digest the plan that begins at `place`, of the replica with this index. Returns where
  // the next one begins.
  std::size_t Show(const PackedPlans& packed, std::size_t place, std::size_t replica,
                   PlanDigest& digest);

  // Fetches what Show will need soon.
  void Prefetch(const PackedPlans& packed, std::size_t place, std::size_t replica) const;

 private:
  std::vector<std::vector<std::uint64_t>> latest_;  // by replica: header and work
};

}  // namespace twin
