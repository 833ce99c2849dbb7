// Ctrl-C during a run: it ends early, with what it has. During work on tables: nothing is left.
#include "apps/interrupt.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <set>
#include <string>
#include <thread>
#include <vector>

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

struct TableCommand {
  std::string name;
  std::vector<std::string> arguments;
  std::string table;  // that the command reads
  std::string rows;   // its beginning
};

std::ostream& operator<<(std::ostream& out, const TableCommand& command) {
  return out << command.name;
}

class InterruptedTableTest : public testing::ExperimentFolderTest,
                             public ::testing::WithParamInterface<TableCommand> {
 protected:
  // The end of a pipe that the command reads as its table, once it has opened it.
  [[nodiscard]] int OpenTable() const {
    for (int i = 0; i < 3000; ++i) {
      const int table = open(scratch_.File(GetParam().table).c_str(), O_WRONLY | O_NONBLOCK);
      if (table >= 0) return table;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return -1;
  }
};

// They went on to the end of the table and succeeded.
TEST_P(InterruptedTableTest, EndsBetweenTwoRowsAndLeavesNothing) {
  ASSERT_EQ(mkfifo(scratch_.File(GetParam().table).c_str(), 0600), 0);
  const std::set<std::string> before = Files();
  testing::Command command(scratch_.path(), GetParam().arguments);
  const int table = OpenTable();
  ASSERT_GE(table, 0);
  command.Signal(SIGINT);
  const std::string& rows = GetParam().rows;
  EXPECT_EQ(write(table, rows.data(), rows.size()), static_cast<ssize_t>(rows.size()));
  close(table);
  const CommandOutcome outcome = command.Wait();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "twinserve: interrupted: no output was written\n");
  EXPECT_EQ(Files(), before);
}

INSTANTIATE_TEST_SUITE_P(
    Commands, InterruptedTableTest,
    ::testing::Values(
        TableCommand{"import",
                     {"import", "aiconfigurator", ".", "--out", "out"},
                     "gemm_h100_sxm.csv",
                     "backend,dtype,m,n,k,latency_us\nvllm,bfloat16,1,64,64,9\n"},
        TableCommand{"predict_ops",
                     {"predict", "ops", "--hardware", "h100-sxm", "--op", "gemm", "--in", "in.csv",
                      "--out", "out"},
                     "in.csv",
                     "m,n,k\n1,64,64\n"},
        TableCommand{"predict_steps",
                     {"predict", "steps", "--hardware", "h100-sxm", "--model", "llama-3-8b", "--in",
                      "in.csv", "--out", "out"},
                     "in.csv",
                     "decode_reqs,decode_context_tokens,prefill_reqs,prefill_tokens\n1,64,0,0\n"}),
    [](const auto& command) { return command.param.name; });

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
