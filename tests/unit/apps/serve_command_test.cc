// twinserve serve: what happens to an earlier run, and how the server ends where it cannot go on.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "tests/support/raw_client.h"
#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

namespace fs = std::filesystem;
using testing::Command;
using testing::CommandOutcome;
using ::testing::HasSubstr;

constexpr auto kPoll = std::chrono::milliseconds(20);

class ServeCommandTest : public testing::ExperimentFolderTest {
 protected:
  ServeCommandTest() {
    Write("served.textproto", "base: 'small.textproto'\nworld { emulated { speed: 20 } }");
  }

  static std::vector<std::string> Arguments(const std::vector<std::string>& more,
                                            const std::string& out = "run") {
    std::vector<std::string> arguments = {"serve", "served.textproto", "--quiet", "--out", out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  static std::vector<std::string> Ready() { return {"--port", "0", "--ready-file", "ready.json"}; }

  // The port of a server that has begun; 0 if it has not within a minute.
  [[nodiscard]] std::uint16_t AwaitPort() const {
    const fs::path ready = scratch_.File("ready.json");
    for (int i = 0; i < 600 && !fs::exists(ready); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    const auto json = nlohmann::json::parse(ReadText(ready), nullptr, false);
    return json.is_object() ? json["port"].get<std::uint16_t>() : std::uint16_t{0};
  }

  // Names of what lies in the folder.
  [[nodiscard]] std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(scratch_.path())) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

  static std::string Completion() {
    return PostText("/v1/completions", R"({"prompt":"a b c","max_tokens":4})");
  }

  // The status of one completion; 0 if the server no longer takes connections.
  static int StatusOfOneCompletion(std::uint16_t port) {
    try {
      RawClient client(port);
      client.Send(Completion());
      return StatusOf(client.ReadResponse());
    } catch (const std::system_error&) {
      return 0;
    }
  }
};

TEST_F(ServeCommandTest, AnEarlierRunStaysWhereTheServerCannotBegin) {
  (void)RunSmall("run");
  const std::string digest = SummaryOf("run")["digest"].get<std::string>();
  Command holder(scratch_.path(), Arguments(Ready(), "other"));
  const std::string port = std::to_string(AwaitPort());
  const std::set<std::string> before = Names();
  struct Case {
    std::vector<std::string> more;
    const char* named;
  };
  for (const Case& bad :
       {Case{{"--port", port}, "cannot be bound"}, Case{{"--host", "192.0.2.1"}, "cannot be bound"},
        Case{{"--host", "no.such.host.invalid"}, "is no address"},
        Case{{"--host", ""}, "--host: is empty"},
        Case{{"--ready-file", "nowhere/ready.json"}, "cannot be written"},
        Case{{"--send-times", "nowhere/times.csv"}, "nowhere/times.csv"}}) {
    const CommandOutcome outcome = Run(Arguments(bad.more));
    EXPECT_THAT(outcome.exit_code, ::testing::AnyOf(1, 2)) << bad.named;
    EXPECT_THAT(outcome.err, HasSubstr(bad.named));
    EXPECT_EQ(SummaryOf("run")["digest"], digest) << bad.named;
  }
  holder.Signal(SIGTERM);
  EXPECT_EQ(holder.Wait().exit_code, 0);
  EXPECT_EQ(Names(), before);
}

TEST_F(ServeCommandTest, ARunOfAServerThatHasBegunReplacesAnEarlierOneAndSaysSo) {
  (void)RunSmall("run");
  Command server(scratch_.path(), Arguments(Ready()));
  RawClient client(AwaitPort());
  client.Send(Completion());
  EXPECT_EQ(StatusOf(client.ReadResponse()), 200);
  server.Signal(SIGTERM);
  const CommandOutcome outcome = server.Wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("run: replaces the run that is there\n"));
  EXPECT_EQ(SummaryOf("run")["completed"], 1);
  EXPECT_EQ(Names(),
            (std::set<std::string>{"ready.json", "run", "served.textproto", "small.textproto"}));
}

// A file that may not grow stands for a disk that is full: the same calls fail.
TEST_F(ServeCommandTest, AServerWhoseRecordCannotBeWrittenEndsWithOneLine) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 64 << 10;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  Command server(scratch_.path(), Arguments(Ready()));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  const std::uint16_t port = AwaitPort();
  int answered = 0;
  while (answered < 10'000 && StatusOfOneCompletion(port) == 200) ++answered;
  EXPECT_LT(answered, 10'000);
  const CommandOutcome outcome = server.Wait();
  EXPECT_EQ(outcome.exit_code, 1);
  const std::size_t last = outcome.err.rfind('\n', outcome.err.size() - 2) + 1;
  EXPECT_THAT(outcome.err.substr(last), HasSubstr("cannot be written: File too large"));
}

// With one file less than the threads need, the server began, and ended by a signal of its own when
// its first thread wanted to hand a connection to the second one.
TEST_F(ServeCommandTest, UnderAnyLimitOfOpenFilesItServesOrEndsWithOneLine) {
  const auto ready = scratch_.File("ready.json");
  bool served = false;
  std::string last;
  for (std::uint64_t files = 6; files < 40 && !served; ++files) {
    // A folder that was begun is not taken away where that needs a file, too.
    std::vector<std::string> arguments = Arguments(Ready(), fmt::format("run_{}", files));
    arguments.insert(arguments.end(), {"--threads", "2"});
    Command server(scratch_.path(), arguments, files);
    std::atomic<bool> ended = false;
    std::thread stop([&] {
      while (!ended && !fs::exists(ready)) std::this_thread::sleep_for(kPoll);
      // As long as a thread would need for its first connection.
      for (int i = 0; i < 20 && !ended; ++i) std::this_thread::sleep_for(kPoll);
      if (!ended) server.Signal(SIGTERM);
    });
    const CommandOutcome outcome = server.Wait();
    ended = true;
    stop.join();
    served = fs::exists(ready);
    last = outcome.err;
    // 127: the program's libraries could not be opened. UBSan opens files as well, and without them
    // it ends with 1 a server that began. A signal gives -1.
    const auto codes = ::testing::AnyOf(served ? 0 : 2, 1, 127);
    EXPECT_THAT(outcome.exit_code, codes) << files << ": " << outcome.err;
    fs::remove(ready);
  }
  EXPECT_TRUE(served) << last;
}

TEST_F(ServeCommandTest, ARunThatWasKilledIsFinishedFromItsRecord) {
  Command server(scratch_.path(), Arguments(Ready()));
  RawClient client(AwaitPort());
  for (int i = 0; i < 3; ++i) {
    client.Send(Completion());
    EXPECT_EQ(StatusOf(client.ReadResponse()), 200);
  }
  const CommandOutcome early = Run({"replay", "run", "--finish"});
  EXPECT_EQ(early.exit_code, 2);
  EXPECT_THAT(early.err, HasSubstr("run: is still being written"));
  server.Signal(SIGKILL);
  EXPECT_EQ(server.Wait().exit_code, -1);
  for (const char* command : {"report", "compare"}) {
    const CommandOutcome refused = Run({command, "run"});
    EXPECT_EQ(refused.exit_code, 2) << command;
    EXPECT_THAT(refused.err, HasSubstr("twinserve replay --finish")) << command;
  }
  const CommandOutcome finished = Run({"replay", "run", "--finish"});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("\nequal\n"));
  // The last instant of a record without end may be cut: up to one request has not ended for it.
  const nlohmann::json summary = SummaryOf("run");
  EXPECT_GE(summary["completed"], 2);
  EXPECT_EQ(summary["interrupted"], 1);
  EXPECT_FALSE(summary.contains("cpu_seconds"));
  EXPECT_EQ(Run({"compare", "run", "run"}).exit_code, 0);
  EXPECT_EQ(Run({"replay", "run"}).err, "");  // the record has an end
  EXPECT_THAT(Run({"replay", "run", "--finish"}).err, HasSubstr("run: is complete"));
}

}  // namespace
}  // namespace twin::apps
