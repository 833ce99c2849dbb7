// Errors that begin in a policy of somebody else: verdicts on that policy, and nothing more.
#pragma once

#include <string>

#include "run/judge/host_messages.h"
#include "sched/policy/own_policy.h"

namespace twin::run {

// A policy cannot be judged any further. The message is one line.
class CandidateFailure : public PolicyFailure {
 public:
  CandidateFailure(FailureKind kind, const std::string& text) : PolicyFailure(text), kind_(kind) {}
  [[nodiscard]] FailureKind kind() const { return kind_; }

 private:
  FailureKind kind_;
};

// The exception that is being handled, thrown by something that was done for a policy. Throws it on
// if it is the machine's (std::system_error).
CandidateFailure FailureBeingHandled();

}  // namespace twin::run
