// All interleavings of a few requests: what can happen in a world, one choice after another.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "run/hostile/kv_shadow.h"
#include "run/record/run_observer.h"
#include "sched/engine.h"
#include "sched/stale_tokens.h"
#include "tests/support/hostile_policies.h"

namespace twin::testing {

struct InterleavingCase {
  DrawnPolicy policy;
  std::function<std::unique_ptr<Policy>()> make = {};  // if set, decides in its place
  EngineConfig engine;
  std::int32_t requests = 2;    // 1 to 4
  std::int32_t cancels = 1;     // how many clients may leave
  std::int32_t early_ends = 1;  // how many outputs may end before their limit
  // Plans by which states are told apart, beside all that the engine shows; -1: all plans and
  // events so far, so that no two states are one and the exploration is exhaustive.
  std::int32_t history = -1;
  std::int64_t transitions_max = 1'000'000;
};

// One thing that happens in an instant. Results come first, then a departure, then an arrival.
struct Happening {
  std::int32_t results = 0;  // steps that return, from `first` on
  std::int32_t first = 0;    // in flight; 0 unless steps return in any order
  std::int32_t ends = -1;    // the request whose output ends with these results; -1 = none
  bool accepts = false;      // drafts
  std::int32_t leaves = -1;  // the request whose client leaves; -1 = none
  bool arrives = false;      // the next request
  bool wakes = false;        // nothing happens until the engine asked to plan again
};

// An engine and its world after a list of happenings. Throws what the engine throws, and
// std::runtime_error if the engine loses count of something, idles while requests wait, or lets a
// device read what it has not computed.
class InterleavedRun {
 public:
  explicit InterleavedRun(const InterleavingCase& c);

  [[nodiscard]] std::vector<Happening> Possible() const;
  void Apply(const Happening& happening);
  // Nothing can happen any more: every request has ended, and every block is back.
  void CheckEnd() const;
  // Of everything that the engine and the world show, and of the latest plans.
  [[nodiscard]] std::uint64_t Fingerprint() const;

 private:
  struct Progress {
    std::int32_t prompt = 0;
    std::int32_t output = 0;
    std::int32_t emitted = 0;
    bool arrived = false;
    bool ended = false;
    TimePoint arrival;
    std::vector<std::uint64_t> content;  // one word per token
    std::vector<BlockKey> keys;          // of all full blocks
  };

  void Return(std::size_t index, const Happening& happening, std::vector<ItemOutcome>& outcomes,
              std::vector<BlockFilled>& filled);
  void Emit(const WorkItem& item, const Happening& happening, std::vector<ItemOutcome>& outcomes,
            std::vector<BlockFilled>& filled);
  void Announce();
  void Plan();
  void Execute(const StepPlan& plan);
  void Audit();
  [[nodiscard]] bool CanReturnInAnyOrder() const;

  const InterleavingCase& case_;
  PolicyTraits traits_;
  mutable Engine engine_;  // sequences() brings the counters up to date
  KvShadow shadow_;
  StaleTokens stale_;
  std::vector<Progress> requests_;
  std::vector<const StepPlan*> in_flight_;
  std::vector<std::uint64_t> plans_;  // hashes, in order
  std::size_t arrived_ = 0;
  std::int32_t cancels_left_;
  std::int32_t early_ends_left_;
  TimePoint now_ = kTimeZero;
};

struct Exploration {
  std::int64_t states = 0;       // different fingerprints
  std::int64_t transitions = 0;  // happenings applied
  std::int64_t ends = 0;         // states in which nothing can happen any more
  std::int32_t longest = 0;      // happenings until an end
  bool complete = true;          // false: transitions_max was reached
  std::string failure;           // the first one, with what led to it; empty = none
};

Exploration ExploreInterleavings(const InterleavingCase& c);

// A case of the mode whose policy can serve each request alone: a pool of 6 blocks of 2 tokens.
InterleavingCase DrawInterleavingCase(const PolicyMode& mode, std::uint64_t seed);

}  // namespace twin::testing
