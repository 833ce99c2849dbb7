#include "run/judge/candidate_failure.h"

#include <exception>
#include <new>
#include <system_error>

#include "core/printable.h"
#include "run/hostile/hostile_run.h"
#include "sched/invariant.h"

namespace twin::run {

CandidateFailure FailureBeingHandled() {
  try {
    throw;
  } catch (const CandidateFailure& failure) {
    return failure;
  } catch (const InvariantViolation& violation) {
    return {FailureKind::kInvariant, violation.what()};
  } catch (const HostileBreach& breach) {
    return {FailureKind::kInvariant, breach.what()};
  } catch (const std::system_error&) {
    throw;
  } catch (const std::bad_alloc&) {
    return {FailureKind::kException, "the judge ran out of memory for what it asks"};
  } catch (const std::exception& error) {
    return {FailureKind::kException, Printable(error.what(), kMessageBytesMax)};
  }
}

}  // namespace twin::run
