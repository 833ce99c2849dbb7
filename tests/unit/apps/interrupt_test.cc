// Ctrl-C during a run: it ends early, with what it has.
#include "apps/interrupt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using nlohmann::json;
using testing::CommandOutcome;
using ::testing::HasSubstr;

class InterruptedRunTest : public testing::ExperimentFolderTest {
 protected:
  // A run for hours, which gets the signal once it has recorded something.
  CommandOutcome RunInterrupted(int signal) {
    testing::Command command(scratch_.path(), {"run", "small.textproto", "--out", "run", "--set",
                                               "workload.requests=1000000000"});
    std::error_code error;
    for (int i = 0; i < 3000; ++i) {
      const auto size = std::filesystem::file_size(Partial() / "steps.csv", error);
      if (!error && size > 10'000) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    command.Signal(signal);
    return command.Wait();
  }

 private:
  // Where the run collects its files; empty before that.
  [[nodiscard]] std::filesystem::path Partial() const {
    for (const std::string& name : Files()) {
      if (name.starts_with("run.partial.")) return scratch_.path() / name;
    }
    return {};
  }
};

TEST_F(InterruptedRunTest, EndsWithAUsableDirectory) {
  const CommandOutcome outcome = RunInterrupted(SIGINT);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("interrupted: "));
  EXPECT_EQ(Files(), (std::set<std::string>{"run", "small.textproto"}));
  EXPECT_EQ(Files("run").size(), 8u);

  const json summary = SummaryOf("run");
  EXPECT_EQ(summary["interrupted"], 1);
  EXPECT_GT(summary["completed"].get<int>(), 0);
  // Those that had not ended have their rows too, behind the header.
  const std::string rows = ReadText(scratch_.File("run/requests.csv"));
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'),
            1 + summary["requests"].get<int>() + summary["unfinished"].get<int>());
  const CommandOutcome replayed = Run({"replay", "run"});
  EXPECT_EQ(replayed.exit_code, 0) << replayed.err;
  EXPECT_THAT(replayed.out, HasSubstr("decided  " + summary["digest"].get<std::string>()));
}

TEST_F(InterruptedRunTest, SigtermEndsItLikewise) {
  EXPECT_EQ(RunInterrupted(SIGTERM).exit_code, 1);
  EXPECT_EQ(SummaryOf("run")["interrupted"], 1);
}

TEST(InterruptGuardTest, EachGuardStartsWithoutASignal) {
  {
    const InterruptGuard guard;
    std::raise(SIGTERM);
    EXPECT_TRUE(InterruptGuard::interrupted());
  }
  const InterruptGuard guard;
  EXPECT_FALSE(InterruptGuard::interrupted());
}

TEST(InterruptGuardDeathTest, ASecondSignalEndsTheProcess) {
  const InterruptGuard guard;
  std::raise(SIGINT);
  EXPECT_EXIT(std::raise(SIGINT), ::testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace twin::apps
