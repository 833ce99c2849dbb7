// A policy in a process of its own, as a policy of the judge's engine.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/policy_file.h"
#include "core/keyed_hash.h"
#include "run/judge/candidate_failure.h"
#include "run/judge/host_messages.h"
#include "run/judge/sandbox.h"
#include "run/record/run_observer.h"
#include "sched/policy/own_policy.h"

namespace twin::run {

// How a policy's process is started: this program, and the words before HostPolicy()'s descriptors
// are read. Python's package sets its own.
struct HostCommand {
  std::string program;
  std::vector<std::string> arguments;
};
void SetHostCommand(HostCommand command);

struct HostOptions {
  SandboxLimits limits;
  double patience_s = 10;  // longest wait for an answer
};

// Changes ids and block keys that a policy sees, so that neither tells where a request comes from:
// keys of a conversation would tell the seed of its lengths.
struct RunDisguise {
  std::uint32_t id_shift = 0;  // added to ids
  HashKey keys;                // hashes block keys
};

// Loads the policy of a file in a sandboxed process. Runs follow each other: each policy that
// policy().make() gives serves one run with one engine, and must see the run as its observer. Not
// thread-safe.
class PolicyHost {
 public:
  // Throws CandidateFailure, std::system_error.
  PolicyHost(const PolicyFile& file, const HostOptions& options);
  ~PolicyHost();
  PolicyHost(const PolicyHost&) = delete;
  PolicyHost& operator=(const PolicyHost&) = delete;

  // For experiments and engines. Its policies borrow the host.
  [[nodiscard]] std::shared_ptr<const OwnPolicy> policy() const { return policy_; }
  [[nodiscard]] const PolicyTraits& traits() const { return policy_->traits; }
  [[nodiscard]] const std::string& sandbox() const { return process_.kind(); }

  // Sees the instants of the next run, or of the present one. Called before its policy is made.
  // `in_child`: the policy knows nothing of runs before.
  RunObserver& BeginRun(const RunDisguise& disguise, bool in_child);

  // Seconds of planning of each step so far: the policy's and its engine's.
  [[nodiscard]] const std::vector<double>& planning_s() const { return planning_s_; }
  // Their sum.
  [[nodiscard]] double planned_s() const { return planned_s_; }

 private:
  class RemotePolicy;
  class Tap;

  [[noreturn]] void Fail(FailureKind kind, const std::string& text);
  [[noreturn]] void FailAsEnded();
  // Sends and waits for an answer of the kind. Throws CandidateFailure.
  MessageReader Exchange(const MessageWriter& message, HostMessage expected);

  HostOptions options_;
  SandboxedProcess process_;
  MessagePipe pipe_;
  std::deque<std::string> texts_;  // of the traits
  std::shared_ptr<OwnPolicy> policy_;
  std::unique_ptr<Tap> tap_;
  bool in_child_ = true;
  bool began_ = false;   // the process serves a run
  bool in_run_ = false;  // and its policy is alive
  std::vector<double> planning_s_;
  double planned_s_ = 0;
};

}  // namespace twin::run
