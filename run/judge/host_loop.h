// The process in which a policy runs that the judge does not trust.
#pragma once

namespace twin::run {

// Answers the judge's messages (host_messages.h) on the descriptors until they end. A policy is
// loaded once; each run that the judge asks for begins in a copy of the process as it was then, so
// that nothing is known of runs before it.
void HostPolicy(int in, int out);

}  // namespace twin::run
