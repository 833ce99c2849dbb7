// --serve: the command line that starts a server, as people paste it.
#pragma once

#include <string>

#include "apps/experiment_options/given_options.h"

namespace twin::apps {

// Adds the model, the server and its flags to `asked`, in front of flags that are there already;
// options that were given stay. Programs, containers and their releases are those of the table of
// servers; programs in front of them and everything behind a pipe are left out. Throws InputError
// (usage) at --serve for a line that starts no server, or starts another server than `asked` names.
void TakeLaunchLine(const std::string& line, GivenOptions& asked);

}  // namespace twin::apps
