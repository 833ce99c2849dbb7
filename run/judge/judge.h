// The judge of scheduling policies: gates that a policy must pass, and its score against references
// in paired simulations.
//
// Threat model: a program writes policies, sees score and reason, has thousands of tries, and finds
// every leak. So the policy runs in a process of its own that knows no truth (policy_host.h); every
// offered request counts (judged_run.h); who is served and who waits is checked beside the score
// (gates.h); and seeds follow from a secret and the number of the submission, so that neither a
// workload can be learned nor the same policy handed in until luck decides (score.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/experiment_config.h"
#include "config/policy_file.h"
#include "run/judge/gates.h"
#include "run/judge/policy_host.h"
#include "run/judge/score.h"
#include "run/judge/secret.h"
#include "run/run_control.h"

namespace twin::run {

// A workload on a system at a load. The experiment's own policy is the reference "default", and its
// traits are the limits of the system.
struct JudgedCell {
  std::string workload;
  std::string system;
  double load = 1;  // of what the default policy can serve
  ExperimentTemplate experiment;
  // Cells of the workload, of which this one was drawn: the score speaks about all of them. 0: all
  // are judged.
  std::size_t of_cells = 0;
};

// A policy to compare with: changes of the experiment, as --set takes them.
struct JudgedReference {
  std::string name;
  std::vector<std::string> changes;
};

struct JudgeOptions {
  JudgeSecret secret;            // seeds follow from it
  std::uint64_t submission = 1;  // this is the k-th policy that is judged with the secret
  double confidence = 0.97;
  std::int32_t rounds = 2;      // pairs of each cell
  std::int32_t rounds_max = 2;  // while a reference is undecided
  std::int32_t hostile_worlds = 1000;
  bool repeats = true;                // G2: some runs are repeated
  std::string metric;                 // in place of Utility(); empty: Utility()
  bool bounds = true;                 // on mean E2E, where the cost model has them (run/bounds)
  double planning_allowed_us = 1000;  // 99 % of the steps; more is charged in a second score
  // Seconds that a policy may plan in all runs together. Beyond, no further round begins; a policy
  // that is not through its first round then fails G7.
  double planning_budget_s = 15;
  HostOptions host;
};

struct AgainstReference {
  std::string name;
  Interval log_ratio;  // mean difference of utility over cells; positive = better
  std::size_t pairs = 0;
  Sign sign = Sign::kUndecided;
};

struct CellScore {
  const JudgedCell* cell = nullptr;
  double log_ratio = 0;  // against the default policy
  std::size_t pairs = 0;
  std::string saturated;  // of the default policy's last run
  // Mean E2E of the candidate's first run, and the bound of its workload if one holds.
  double mean_e2e_s = 0;
  std::optional<double> floor_s;
};

struct Verdict {
  std::optional<GateFailure> failure;  // not set: the policy is valid
  std::vector<AgainstReference> against;
  std::vector<CellScore> cells;
  std::vector<Trade> trades;
  std::int32_t hostile_worlds = 0;  // that it served
  std::string sandbox;              // PolicyHost::sandbox(); "none" for a policy of the registry
  std::string sandbox_problem;      // PolicyHost::problem()
  double planning_p50_us = 0;
  double planning_p99_us = 0;
  // The score with planning charged as host time, from one round; not set if planning is fast.
  std::optional<double> charged_score;
  double outside_share = 0;  // the largest of all runs
  bool interrupted = false;
};

// Judges a policy of a file. A scheduler of an engine gets the limits and the prefix cache of the
// default policy in the first cell as parameters, unless `file` has them.
Verdict Judge(const PolicyFile& file, const std::vector<JudgedCell>& cells,
              const std::vector<JudgedReference>& references, const JudgeOptions& options,
              RunControl& control);
// Judges a policy of the registry, which is trusted: changes of the experiment that name it.
Verdict Judge(const std::vector<std::string>& changes, const std::vector<JudgedCell>& cells,
              const std::vector<JudgedReference>& references, const JudgeOptions& options,
              RunControl& control);

}  // namespace twin::run
