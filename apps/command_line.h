// twinserve, whatever its main is linked with.
#pragma once

namespace twin::apps {

// Carries out one command line and returns the exit code. The only place that catches exceptions:
// each becomes one line on stderr.
int RunCommandLine(int argc, char** argv);

}  // namespace twin::apps
