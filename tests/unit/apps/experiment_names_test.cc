#include "apps/experiment_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "apps/run_command_line.h"
#include "core/input_error.h"
#include "tests/unit/traces/trace_samples.h"

namespace twin::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

namespace fs = std::filesystem;

// A current folder and a data folder of its own.
class ExperimentNamesTest : public ::testing::Test {
 protected:
  ExperimentNamesTest() {
    fs::create_directories(here_);
    fs::current_path(here_);
    SetDataFolder(data_);
  }
  ~ExperimentNamesTest() override {
    SetDataFolder({});
    fs::current_path(before_);
  }

  static void Write(const fs::path& file) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << "seed: 1\n";
  }

  const fs::path before_ = fs::current_path();
  const ScratchDirectory scratch_{"experiment_names"};
  const fs::path root_ = scratch_.path();
  const fs::path here_ = root_ / "here";
  const fs::path data_ = root_ / "data";
};

TEST_F(ExperimentNamesTest, APathOfAFileNamesItself) {
  Write(here_ / "a.textproto");
  Write(data_ / "experiments/a.textproto");
  EXPECT_EQ(ExperimentFile("a.textproto"), "a.textproto");
  EXPECT_EQ(ExperimentFile(data_ / "missing"), data_ / "missing");
}

TEST_F(ExperimentNamesTest, ANameIsLookedUpHereThenInTheData) {
  Write(data_ / "experiments/quickstart/a.textproto");
  fs::create_directories(here_ / "quickstart/a");  // a folder is no experiment
  EXPECT_EQ(ExperimentFile("quickstart/a"), data_ / "experiments/quickstart/a.textproto");
  EXPECT_EQ(ExperimentFile("quickstart/a.textproto"), data_ / "experiments/quickstart/a.textproto");
  EXPECT_EQ(ExperimentFile("experiments/quickstart/a.textproto"),
            data_ / "experiments/quickstart/a.textproto");
  Write(here_ / "experiments/quickstart/a.textproto");
  EXPECT_EQ(ExperimentFile("quickstart/a"), "experiments/quickstart/a.textproto");
}

TEST_F(ExperimentNamesTest, ErrorsOnFilesGetWhatWasAsked) {
  EXPECT_EQ(ExperimentFile("b.textproto"), "b.textproto");
  EXPECT_EQ(ExperimentFile("./quickstart/b"), "./quickstart/b");
}

TEST_F(ExperimentNamesTest, WithoutNamesTheRefusalSaysWhereTheyAreLookedUp) {
  EXPECT_THAT([] { (void)ExperimentFile("quickstart/b"); },
              ThrowsMessage<InputError>(
                  HasSubstr("quickstart/b: is no file, and there is no folder experiments here, in "
                            "which names are looked up; allowed: a file, or a name where")));
}

TEST_F(ExperimentNamesTest, AnUnknownNameIsRefusedWithTheNearest) {
  Write(data_ / "experiments/quickstart/orca.textproto");
  Write(data_ / "experiments/quickstart/vllm_v1.textproto");
  Write(data_ / "experiments/quickstart/_base.textproto");
  EXPECT_THAT([] { (void)ExperimentFile("quickstart/vllm_v2"); },
              ThrowsMessage<InputError>(
                  HasSubstr("quickstart/vllm_v2: is no file and no experiment by name; nearest "
                            "quickstart/vllm_v1, quickstart/orca; allowed: ")));
}

TEST(RunCommandLineTest, AFurtherCommandGetsWhatFollowsItsName) {
  char program[] = "twinserve";
  char name[] = "plot";
  char figure[] = "latency_cdf";
  char help[] = "--help";
  char* words[] = {program, name, figure, help, nullptr};
  std::vector<std::string> given;
  const FurtherCommand command = {.name = "plot", .help = "Draws", .call = [&](const auto& rest) {
                                    given = rest;
                                    return 7;
                                  }};
  EXPECT_EQ(RunCommandLine(4, words, {&command, 1}), 7);
  EXPECT_EQ(given, (std::vector<std::string>{"latency_cdf", "--help"}));
}

}  // namespace
}  // namespace twin::apps
