// Rules for what a policy in the judge may say of itself. Every field of PolicyTraits has a rule; a
// field without one does not compile.
#pragma once

#include <deque>
#include <string>

#include "run/judge/message_pipe.h"
#include "sched/policy/policy.h"

namespace twin::run {

// Throws InputError (usage) if the policy needs what the judge cannot follow: drafts, padded
// batches, a prefix tree of its own, deferred releases, keys and values of other replicas.
void PutTraits(MessageWriter& writer, const PolicyTraits& traits);

// Traits whose texts, printable ones, lie in `texts`, which must outlive them. Throws BadMessage if
// a value is outside its type's range, or if steps and results do not fit each other.
PolicyTraits GetTraits(MessageReader& reader, std::deque<std::string>& texts);

// Why the traits are not allowed on a system whose own policy has the traits `system`; empty: they
// are. The system decides about memory, lengths of requests and the host; a policy that says
// otherwise would be scored on another system.
std::string RefuseTraits(const PolicyTraits& traits, const PolicyTraits& system);

}  // namespace twin::run
