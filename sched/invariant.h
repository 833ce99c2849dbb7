// The numbered promises of every plan (docs/INVARIANTS.md), checked in every build type.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include "core/ids.h"

namespace twin {

// A policy broke a promise. Ends the run; says which invariant, in which step, for which request.
class InvariantViolation : public std::runtime_error {
 public:
  // `request`: absent if the violation concerns no single one.
  InvariantViolation(int number, StepId step, std::optional<RequestId> request,
                     const std::string& what);

  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

[[noreturn]] void ThrowInvariant(int number, StepId step, RequestId request, const char* what);

// For violations that concern no single request.
[[noreturn]] void ThrowInvariant(int number, StepId step, const char* what);

}  // namespace twin
