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

// How the program is started that calls HostPolicies(): this one, and its words. Python's package
// sets its own, with the files and folders that its interpreter needs.
struct HostCommand {
  std::string program;
  std::vector<std::string> arguments;
  std::vector<std::string> paths;
};
void SetHostCommand(HostCommand command);

struct HostOptions {
  SandboxLimits limits;
  double patience_s = 10;   // longest wait for an answer
  double loading_s = 60;    // for loading the policy and beginning runs, in all runs together
  double planning_s = 600;  // in one run
  std::vector<std::string> paths;  // further files and folders that the policy may read
};

// Changes ids and block keys that a policy sees, so that neither tells where a request comes from:
// keys of a conversation would tell the seed of its lengths.
struct RunDisguise {
  std::uint32_t id_shift = 0;  // added to ids
  HashKey keys;                // hashes block keys
};

// Runs the policy of a file in processes of a sandbox. Runs follow each other: each policy that
// policy().make() gives serves one run with one engine, and must see the run as its observer. Not
// thread-safe.
class PolicyHost {
 public:
  // Starts the sandbox, and loads the policy unless this `waits` for Load(). Throws
  // CandidateFailure, std::system_error.
  PolicyHost(const PolicyFile& file, const HostOptions& options, bool waits = false);
  ~PolicyHost();
  PolicyHost(const PolicyHost&) = delete;
  PolicyHost& operator=(const PolicyHost&) = delete;

  // Throws CandidateFailure.
  void Load();

  // For experiments and engines. Its policies borrow the host.
  [[nodiscard]] std::shared_ptr<const OwnPolicy> policy() const { return policy_; }
  [[nodiscard]] const PolicyTraits& traits() const { return policy_->traits; }
  // "namespaces", or "unsandboxed" where the kernel denies a namespace or the filter of system
  // calls; problem() then says which.
  [[nodiscard]] const char* sandbox() const {
    return problem_.empty() ? "namespaces" : "unsandboxed";
  }
  [[nodiscard]] const std::string& problem() const { return problem_; }

  // Sees the instants of the next run, or of the present one. Called before its policy is made.
  // `fresh`: in a new process, in which the policy knows nothing of runs before.
  RunObserver& BeginRun(const RunDisguise& disguise, bool fresh);

  // Seconds of planning of each step so far: the CPU time that the kernel has counted for the
  // policy's process since its last answer, or the time that its answer took, if this is longer by
  // more than a millisecond. The way of a message, and waiting for a processor, are not counted.
  [[nodiscard]] const std::vector<double>& planning_s() const { return planning_s_; }
  // Their sum.
  [[nodiscard]] double planned_s() const { return planned_s_; }
  void ForgetPlanning();

 private:
  class RemotePolicy;
  class Tap;

  [[noreturn]] void Fail(FailureKind kind, const std::string& text);
  [[noreturn]] void FailAsEnded();
  // Sends and waits for an answer of the kind. Throws CandidateFailure.
  MessageReader Exchange(const MessageWriter& message, HostMessage expected);
  MessageReader Receive(HostMessage expected);

  // A new process, with the policy loaded. Throws CandidateFailure, std::exception.
  void StartProcess();
  void LoadFile();
  // Measures what an exchange costs the process that does nothing.
  void MeasurePings();
  // The CPU time of the process since the last call, without that of an exchange.
  double TakeCpuSeconds();
  // Exchange() and the time that the process took (planning_s()).
  MessageReader Measure(const MessageWriter& message, HostMessage expected, double& seconds);

  HostOptions options_;
  PolicyFile file_;
  Sandbox sandbox_;
  std::unique_ptr<SandboxedProcess> process_;
  std::optional<MessagePipe> pipe_;
  std::string problem_;
  std::deque<std::string> texts_;  // of the traits
  std::shared_ptr<OwnPolicy> policy_;
  std::unique_ptr<Tap> tap_;
  bool began_ = false;   // the process has served a run
  bool in_run_ = false;  // and its policy is alive
  double cpu_s_ = 0;     // of the process, at the last look
  double waited_s_ = 0;  // for a processor, at the last look
  double ping_s_ = -1;   // CPU time of an exchange; not yet measured
  std::vector<double> planning_s_;
  double planned_s_ = 0;
  double planned_in_run_s_ = 0;
  double loaded_s_ = 0;
};

}  // namespace twin::run
