#include "apps/run_command_line.h"

int main(int argc, char** argv) { return twin::apps::RunCommandLine(argc, argv); }
