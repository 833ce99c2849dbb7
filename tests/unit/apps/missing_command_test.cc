#include "apps/missing_command.h"

#include <gtest/gtest.h>

#include <string>

#include <CLI/CLI.hpp>

namespace twin::apps {
namespace {

TEST(MissingCommandTest, SaysWhichBuildHasTheCommandWhateverItsArguments) {
  CLI::App app;
  AddMissingCommand(CommandParser(app), "serve", "TWIN_SERVING");
  try {
    app.parse("serve experiment.textproto --port 8000");
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_EQ(std::string(error.what()),
              "serve: is not in this program, which was built with -DTWIN_SERVING=OFF; allowed: a "
              "build of everything (cmake --preset release && cmake --build build/release --target "
              "twinserve)");
  }
}

}  // namespace
}  // namespace twin::apps
