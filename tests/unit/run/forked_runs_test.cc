#include "run/many/forked_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/input_error.h"
#include "sched/policy/own_policy.h"

namespace twin::run {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::function<int()> kFork = [] { return fork(); };

class Reports final : public RunControl {
 public:
  void OnWarning(const std::string& text) override { warnings.push_back(text); }
  void OnNote(const std::string& text) override { notes.push_back(text); }
  [[nodiscard]] bool StopRequested() const override { return stop; }

  std::vector<std::string> warnings;
  std::vector<std::string> notes;
  bool stop = false;
};

TEST(ForkedRunsTest, EachPieceIsAProcessOfItsOwnThatLeavesItsBytes) {
  Reports control;
  int touched = 0;
  std::map<std::size_t, std::string> results;
  std::set<std::string> processes;
  RunInProcesses(
      7, 3, control, kFork,
      [&](std::size_t i, RunControl& /*inner*/) {
        ++touched;
        return std::string(i * 100'000, 'x') + std::to_string(touched) + " " +
               std::to_string(getpid());
      },
      [&](std::size_t i, const std::string& bytes) {
        results[i] = bytes.substr(0, bytes.rfind(' '));
        processes.insert(bytes.substr(bytes.rfind(' ')));
      });
  EXPECT_EQ(touched, 0);
  ASSERT_EQ(results.size(), 7u);
  // A piece sees this process as it was, not the pieces before; its bytes may be more than a pipe
  // holds.
  for (const auto& [i, text] : results) EXPECT_EQ(text, std::string(i * 100'000, 'x') + "1");
  EXPECT_EQ(processes.size(), 7u);
}

TEST(ForkedRunsTest, ReportsOfAPieceReachTheCaller) {
  Reports control;
  RunInProcesses(
      1, 1, control, kFork,
      [](std::size_t /*i*/, RunControl& inner) {
        inner.OnWarning("careful");
        inner.OnNote("");
        return std::string();
      },
      [](std::size_t /*i*/, const std::string& bytes) { EXPECT_EQ(bytes, ""); });
  EXPECT_THAT(control.warnings, ElementsAre("careful"));
  EXPECT_THAT(control.notes, ElementsAre(""));
}

// The message of what `run` throws in a child.
template <class Error>
std::string MessageOf(const std::function<std::string()>& run) {
  Reports control;
  try {
    RunInProcesses(
        4, 2, control, kFork, [&](std::size_t /*i*/, RunControl& /*inner*/) { return run(); },
        [](std::size_t /*i*/, const std::string& /*bytes*/) { ADD_FAILURE(); });
  } catch (const Error& error) {
    return error.what();
  }
  return "no such exception";
}

TEST(ForkedRunsTest, AnExceptionOfAPieceIsThrownHere) {
  EXPECT_EQ(MessageOf<InputError>([]() -> std::string {
              throw InputError(InputError::Kind::kUsage, "field", "is wrong");
            }),
            "field: is wrong");
  EXPECT_EQ(MessageOf<PolicyFailure>([]() -> std::string { throw std::runtime_error("failed"); }),
            "failed");
  EXPECT_THAT(MessageOf<PolicyFailure>([]() -> std::string {
                raise(SIGKILL);
                return "";
              }),
              HasSubstr("ended by signal 9"));
  EXPECT_THAT(MessageOf<PolicyFailure>([]() -> std::string { _exit(0); }),
              HasSubstr("ended before the run did"));
}

TEST(ForkedRunsTest, ARequestToStopKillsTheRunningPieces) {
  Reports control;
  std::size_t done = 0;
  RunInProcesses(
      100, 2, control, kFork,
      [](std::size_t i, RunControl& /*inner*/) {
        if (i > 0) pause();
        return std::string("first");
      },
      [&](std::size_t /*i*/, const std::string& bytes) {
        EXPECT_EQ(bytes, "first");
        ++done;
        control.stop = true;
      });
  EXPECT_EQ(done, 1u);
}

}  // namespace
}  // namespace twin::run
