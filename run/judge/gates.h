// Gates that a policy must pass to be scored, and the price of its gains.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "run/judge/judged_run.h"
#include "sched/policy/policy.h"

namespace twin::run {

// The first gate that a policy fails. The reason is one line.
struct GateFailure {
  std::string gate;  // "G0" to "G7"
  std::string reason;
};

// A class of requests that a policy serves later than the reference does.
struct Trade {
  std::string requests;  // "prompt_q4", "output_top5", "tenant_1"
  double log_ratio = 0;  // mean ln(E2E / the reference's E2E)
};

// G4: everybody is served whom the reference serves, and nobody else is refused for load.
std::optional<GateFailure> CheckServed(const JudgedRun& run, const JudgedRun& reference);
// G4: requests ask for the same tokens, and get as many, as with the reference.
std::optional<GateFailure> CheckLengths(const JudgedRun& run, const JudgedRun& reference);

// G5: nobody waits 10 times as long as with the reference and 30 s more.
std::optional<GateFailure> CheckNobodyStarves(const JudgedRun& run, const JudgedRun& reference);

// G6: what the policy says of itself (judged_traits.h). `system`: the traits of the reference.
std::optional<GateFailure> CheckTraits(const PolicyTraits& traits, const PolicyTraits& system);
// G6: no step is larger than the system's memory was planned for, and no more than 1 % of the time,
// beside the reference's share, lies in steps that nobody has measured.
std::optional<GateFailure> CheckSteps(const JudgedRun& run, const JudgedRun& reference,
                                      const PolicyTraits& system);

// Sums of ln(E2E / the reference's E2E) over runs, by quartile of prompts and of outputs within a
// run, for the longest 5 % of them, and by tenant if there are several.
class ClassMeter {
 public:
  void Add(const JudgedRun& run, const JudgedRun& reference);

  // G5: no class waits 1.5 times as long.
  [[nodiscard]] std::optional<GateFailure> Check() const;
  // Classes that wait 1.1 times as long, the worst first.
  [[nodiscard]] std::vector<Trade> Trades() const;

 private:
  struct Sum {
    double log_ratio = 0;
    std::int64_t requests = 0;
  };
  std::map<std::string, Sum> sums_;
};

}  // namespace twin::run
