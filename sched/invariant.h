// Violations of the invariants in docs/INVARIANTS.md, which are checked in every build type.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include "core/ids.h"

namespace twin {

// A policy broke an invariant. Ends the run; the message names the invariant, step and request.
class InvariantViolation : public std::runtime_error {
 public:
  // `request`: absent if the violation does not concern a single request.
  InvariantViolation(int number, StepId step, std::optional<RequestId> request,
                     const std::string& what);

  // A violation by the policy that `policy` names.
  InvariantViolation(const std::string& policy, const InvariantViolation& violation)
      : std::runtime_error(policy + ": " + violation.what()), number_(violation.number_) {}

  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

[[noreturn]] void ThrowInvariant(int number, StepId step, RequestId request, const char* what);

// For violations that do not concern a single request.
[[noreturn]] void ThrowInvariant(int number, StepId step, const char* what);

}  // namespace twin
