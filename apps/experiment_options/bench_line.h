// --bench: the command line of a load generator, as people paste it.
#pragma once

#include <string>

#include "apps/experiment_options/given_options.h"

namespace twin::apps {

// Adds the load to `asked`; options that were given stay. Where the line leaves the load open, the
// defaults of its program hold. Throws InputError (usage) at --bench for a line that starts no
// known load generator, or leaves open when requests come.
void TakeBenchLine(const std::string& line, GivenOptions& asked);

}  // namespace twin::apps
