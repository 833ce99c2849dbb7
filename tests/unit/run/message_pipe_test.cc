// Messages between the judge and the process of a policy.
#include "run/judge/message_pipe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "core/input_error.h"
#include "run/judge/host_messages.h"
#include "run/judge/judged_traits.h"

namespace twin::run {
namespace {

TEST(MessageTest, ValuesComeBackInOrder) {
  MessageWriter writer;
  writer.Put(7);
  writer.PutText("a policy");
  writer.PutList(std::span<const double>(std::array{1.5, 2.5}));
  MessageReader reader(writer.bytes());
  EXPECT_EQ(reader.Get<int>(), 7);
  EXPECT_EQ(reader.GetText(), "a policy");
  std::vector<double> numbers;
  reader.GetList(numbers);
  EXPECT_EQ(numbers, (std::vector{1.5, 2.5}));
  EXPECT_NO_THROW(reader.End());
}

// Messages of a process are not trusted.
TEST(MessageTest, RefusesMessagesThatEndEarlyOrSayMoreThanTheyHold) {
  using PairOfCounts = std::array<MessageCount, 2>;
  MessageWriter writer;
  writer.Put(MessageCount{0xFFFFFFFF});  // as the length of a list
  writer.Put(std::uint16_t{1});
  std::vector<std::uint64_t> values;
  EXPECT_THROW(MessageReader(writer.bytes()).GetList(values), BadMessage);
  EXPECT_THROW(MessageReader(writer.bytes()).Get<PairOfCounts>(), BadMessage);
  MessageReader rest(writer.bytes());
  (void)rest.Get<MessageCount>();
  EXPECT_THROW(rest.End(), BadMessage);
}

TEST(MessageTest, RefusesCallsAndTraitsOfNoKind) {
  StepCalls calls;
  calls.calls.push_back({static_cast<StepCall::Kind>(99), RequestId{1}});
  MessageWriter writer;
  PutCalls(writer, calls);
  MessageReader reader(writer.bytes());
  StepCalls read;
  EXPECT_THROW(GetCalls(reader, read), BadMessage);

  PolicyTraits traits;
  traits.name = "mine";
  traits.tokens_per_step_max = -1;
  MessageWriter bad;
  PutTraits(bad, traits);
  MessageReader bad_reader(bad.bytes());
  std::deque<std::string> texts;
  EXPECT_THROW(GetTraits(bad_reader, texts), BadMessage);
}

TEST(MessageTest, TraitsKeepWhatTheJudgeFollowsAndNoOtherOnesPass) {
  PolicyTraits traits;
  traits.name = "mine";
  traits.tokens_per_step_max = 512;
  traits.sequences_per_step_max = 16;
  traits.first_come_first_served = false;
  traits.caches_prefixes = true;
  MessageWriter writer;
  PutTraits(writer, traits);
  MessageReader reader(writer.bytes());
  std::deque<std::string> texts;
  EXPECT_EQ(GetTraits(reader, texts), traits);
  traits.drafts_max = 2;
  MessageWriter other;
  EXPECT_THROW(PutTraits(other, traits), InputError);
}

class PipeTest : public ::testing::Test {
 protected:
  PipeTest() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~PipeTest() override {
    close(ends_[0]);
    if (ends_[1] >= 0) close(ends_[1]);
  }
  void Write(const std::string& bytes) {
    EXPECT_EQ(write(ends_[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void CloseWriter() {
    close(ends_[1]);
    ends_[1] = -1;
  }

  std::array<int, 2> ends_{};
};

TEST_F(PipeTest, SendsAndReceives) {
  MessagePipe pipe(ends_[0], ends_[1]);
  MessageWriter writer;
  writer.PutText("plan");
  EXPECT_TRUE(pipe.Send(writer.bytes()));
  const auto bytes = pipe.Receive(1);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(MessageReader(*bytes).GetText(), "plan");
}

TEST_F(PipeTest, KnowsWhetherSomethingIsThere) {
  MessagePipe pipe(ends_[0], ends_[1]);
  EXPECT_FALSE(pipe.HasInput());
  Write("x");
  EXPECT_TRUE(pipe.HasInput());
}

// A process that does not read must not hold up the judge.
TEST_F(PipeTest, WaitsForAReaderNoLongerThanAllowed) {
  ASSERT_EQ(fcntl(ends_[1], F_SETFL, O_NONBLOCK), 0);
  MessagePipe pipe(ends_[0], ends_[1]);
  const std::vector<std::byte> message(1 << 20);  // more than a pipe takes
  EXPECT_FALSE(pipe.Send(message, 0.01));
  EXPECT_TRUE(pipe.timed_out());
}

TEST_F(PipeTest, TellsSilenceFromTheEnd) {
  MessagePipe pipe(ends_[0], ends_[1]);
  EXPECT_FALSE(pipe.Receive(0.01));
  EXPECT_TRUE(pipe.timed_out());
  Write("\x05");  // a part of a length
  CloseWriter();
  EXPECT_FALSE(pipe.Receive(1));
  EXPECT_FALSE(pipe.timed_out());
}

TEST_F(PipeTest, RefusesAMessageThatWouldFillTheMemory) {
  MessagePipe pipe(ends_[0], ends_[1]);
  Write("\xff\xff\xff\x7f");
  EXPECT_THROW(pipe.Receive(1), BadMessage);
}

}  // namespace
}  // namespace twin::run
