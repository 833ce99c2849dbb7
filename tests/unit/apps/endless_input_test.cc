// Inputs that are no regular files: a FIFO without a writer waits for ever, a device never ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using ::testing::AnyOf;
using testing::CommandOutcome;
using ::testing::HasSubstr;

class EndlessInputTest : public testing::ExperimentFolderTest {
 protected:
  EndlessInputTest() { MakeFifo("pipe"); }

  void MakeFifo(const std::string& name) const {
    EXPECT_EQ(mkfifo(scratch_.File(name).c_str(), 0600), 0);
  }

  // A call that names a file which it cannot read.
  void ExpectRefused(const std::vector<std::string>& arguments, const std::string& file) const {
    const CommandOutcome outcome = Run(arguments);
    EXPECT_THAT(outcome.exit_code, AnyOf(1, 2)) << arguments.front() << " " << file;
    EXPECT_THAT(outcome.err, HasSubstr(file)) << arguments.front();
    EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
  }
};

TEST_F(EndlessInputTest, EveryCommandRefusesThemWithTheirName) {
  const std::string model = std::string(TWIN_SOURCE_DIR) + "/tests/golden/models/tiny-llama";
  for (const std::string file : {"pipe", "/dev/zero"}) {
    ExpectRefused({"run", file, "--out", "r"}, file);
    ExpectRefused({"run", "small.textproto", "--set", "system.model=" + file, "--out", "r"}, file);
    ExpectRefused({"generate", "--model", model, "--prompts", file, "--out", "g"}, file);
    ExpectRefused({"schedule", file}, file);
    ExpectRefused({"fit", file, "--out", "f"}, file);
    ExpectRefused({"replay", file}, file);
    ExpectRefused({"compare", file, file}, file);
  }
}

TEST_F(EndlessInputTest, SoDoReadersOfModelFolders) {
  std::filesystem::create_directory(scratch_.File("model"));
  MakeFifo("model/config.json");
  ExpectRefused({"run", "small.textproto", "--set", "system.model=./model", "--out", "r"},
                "model/config.json");
}

TEST_F(EndlessInputTest, SoDoReadersOfRuns) {
  (void)RunSmall("run");
  std::filesystem::remove(scratch_.File("run/record.pb"));
  MakeFifo("run/record.pb");
  ExpectRefused({"replay", "run"}, "run/record.pb");
}

TEST_F(EndlessInputTest, SoDoesTheServer) {
  Write("served.textproto", "base: 'small.textproto'\nworld { emulated {} }");
  const auto expect = [&](const std::string& option, const std::string& file) {
    ExpectRefused({"serve", "served.textproto", "--port", "0", "--real-time", "off", "--out", "s",
                   option, file},
                  file);
  };
  expect("--tokenizer", "pipe");
  expect("--chat-template", "pipe");
  expect("--api-key-file", "/dev/zero");
}

}  // namespace
}  // namespace twin::apps
