// The twinserve program without its main function.
#pragma once

namespace twin::apps {

// Executes a command line and returns the exit code. This is the only place that catches
// exceptions: each becomes one line on stderr.
int RunCommandLine(int argc, char** argv);

}  // namespace twin::apps
