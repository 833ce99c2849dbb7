// The file of `serve --send-times`.
#include "apps/serve/send_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "tests/support/scripted_service.h"

namespace twin::apps {
namespace {

using std::chrono::milliseconds;

class SendTimesTest : public testing::Test {
 protected:
  ~SendTimesTest() override { std::filesystem::remove(file_); }

  std::string Text() const {
    std::ifstream stream(file_);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / ("send_times_test." + std::to_string(getpid()));
  ScriptedService service_;  // its clock says one second
};

TEST_F(SendTimesTest, TimesAreThoseOfTheSteadyClock) {
  service_.served.speed = 10;  // one second of the service is 100 ms of the clock
  const auto now_ns = [] { return std::chrono::steady_clock::now().time_since_epoch().count(); };
  const std::int64_t before = now_ns();
  SendTimes times(file_, service_);
  const std::int64_t after = now_ns();
  const std::vector<TimePoint> due = {TimePoint(milliseconds(20)), TimePoint(milliseconds(40))};
  times.Write({"r-1", due, TimePoint(milliseconds(70))});
  times.Finish();

  std::istringstream text(Text());
  std::string line;
  std::getline(text, line);
  EXPECT_EQ(line, "request,due_ns,sent_ns");
  for (const std::int64_t due_ns : {2'000'000, 4'000'000}) {
    std::string request;
    std::getline(text, request, ',');
    EXPECT_EQ(request, "r-1");
    std::int64_t told_due = 0;
    std::int64_t told_sent = 0;
    char comma = 0;
    text >> told_due >> comma >> told_sent;
    text.ignore(1, '\n');
    EXPECT_GE(told_due, before - 100'000'000 + due_ns);
    EXPECT_LE(told_due, after - 100'000'000 + due_ns);
    EXPECT_EQ(told_sent - told_due, 7'000'000 - due_ns);
  }
  EXPECT_FALSE(std::getline(text, line)) << line;
}

TEST_F(SendTimesTest, NamesOfClientsAreCellsOfTheTable) {
  SendTimes times(file_, service_);
  const std::vector<TimePoint> due(1);
  times.Write({"a,\"b\"", due, TimePoint()});
  times.Finish();
  EXPECT_THAT(Text(), testing::HasSubstr("\n\"a,\"\"b\"\"\","));
}

TEST_F(SendTimesTest, FilesThatCannotBeWrittenAreErrors) {
  EXPECT_THROW(SendTimes(file_ / "none", service_), std::system_error);
  SendTimes times("/dev/full", service_);
  const std::vector<TimePoint> due(1);
  times.Write({"a", due, TimePoint()});
  EXPECT_THROW(times.Finish(), std::system_error);
}

}  // namespace
}  // namespace twin::apps
