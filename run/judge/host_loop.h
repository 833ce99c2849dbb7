// The processes in which a policy runs that the judge does not trust.
#pragma once

namespace twin::run {

// The program of a sandbox: prepares what a policy needs, and makes a process for each run. In such
// a process the policy's file is loaded, and the judge's messages (host_messages.h) are answered.
// No code of the file runs in the program itself, so that no run can leave anything to the next
// one. Returns when the judge's socket ends.
void HostPolicies();

}  // namespace twin::run
