#include "sched/invariant.h"

namespace twin {
namespace {

std::string Place(int number, StepId step, std::optional<RequestId> request) {
  std::string place =
      "invariant I" + std::to_string(number) + " broken in step " + std::to_string(Index(step));
  if (request) place += ", request " + std::to_string(Index(*request));
  return place + ": ";
}

}  // namespace

InvariantViolation::InvariantViolation(int number, StepId step, std::optional<RequestId> request,
                                       const std::string& what)
    : std::runtime_error(Place(number, step, request) + what), number_(number) {}

void ThrowInvariant(int number, StepId step, RequestId request, const char* what) {
  throw InvariantViolation(number, step, request, what);
}

void ThrowInvariant(int number, StepId step, const char* what) {
  throw InvariantViolation(number, step, std::nullopt, what);
}

}  // namespace twin
