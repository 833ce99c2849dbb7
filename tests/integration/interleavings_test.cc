// Every policy in every order of events that a few small requests can have: arrivals before,
// between and with the returns of steps, a client that leaves at any moment, an output that ends at
// any token, drafts that are accepted or not. In each of them the invariants hold, the device reads
// only what was computed, and all requests end.
//
// More: --configs=N --requests=N --transitions=N. Prints what was explored.
#include "tests/support/interleavings.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <string_view>

namespace twin::testing {
namespace {

struct Size {
  std::int32_t requests = 4;
  std::uint64_t configs = 1;
  std::int64_t transitions = 1'000'000;
} size;

class InterleavingsTest : public ::testing::TestWithParam<PolicyMode> {};

void Print(const std::string& mode, const char* how, const Exploration& all) {
  fmt::print("{:45} {} {:7} states {:8} transitions {:7} ends, longest {}{}\n", mode, how,
             all.states, all.transitions, all.ends, all.longest, all.complete ? "" : ", cut short");
}

// Without taking any two states for one.
TEST_P(InterleavingsTest, TwoRequestsEndInEveryOrderOfEvents) {
  for (std::uint64_t seed = 1; seed <= size.configs; ++seed) {
    InterleavingCase c = DrawInterleavingCase(GetParam(), seed);
    c.transitions_max = size.transitions;
    const Exploration all = ExploreInterleavings(c);
    EXPECT_EQ(all.failure, "") << "seed " << seed;
    EXPECT_GT(all.ends, 0);
    EXPECT_TRUE(all.complete);
    Print(GetParam().name, "apart ", all);
  }
}

// States are one if the engine shows the same and the latest two plans are equal.
TEST_P(InterleavingsTest, FourRequestsEndInEveryOrderOfEvents) {
  for (std::uint64_t seed = 1; seed <= size.configs; ++seed) {
    InterleavingCase c = DrawInterleavingCase(GetParam(), seed);
    c.requests = size.requests;
    c.history = 2;
    c.transitions_max = size.transitions;
    const Exploration all = ExploreInterleavings(c);
    EXPECT_EQ(all.failure, "") << "seed " << seed;
    EXPECT_TRUE(all.complete);
    Print(GetParam().name, "merged", all);
  }
}

// Serves one request at a time, whole. Its defect: the departure of a waiting request takes the
// next one out of the queue, too.
class Forgetful final : public Policy {
 public:
  Forgetful() { traits_.name = "forgetful"; }
  [[nodiscard]] const PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const Sequence& sequence) override { queue_.push_back(sequence.id); }
  void Remove(const Sequence& sequence) override {
    const bool waited = std::erase(queue_, sequence.id) > 0 && !served_.contains(sequence.id);
    if (waited && !queue_.empty() && !served_.contains(queue_.back())) queue_.pop_back();
  }
  void Plan(StepBuilder& step) override {
    if (queue_.empty()) return;
    const RequestId id = queue_.front();
    if (served_.insert(id).second) step.Admit(id);
    const Sequence& s = step.sequence(id);
    if (s.known > s.computed && step.Grow(s, s.known)) step.Schedule(s, s.known - s.computed);
  }

 private:
  PolicyTraits traits_;
  std::deque<RequestId> queue_;
  std::set<RequestId> served_;
};

Exploration OfForgetful(std::int32_t requests, std::int32_t cancels) {
  InterleavingCase c;
  c.make = [] { return std::make_unique<Forgetful>(); };
  c.engine.kv = {2, 6, 0, ReleaseOrder::kBack};
  c.requests = requests;
  c.cancels = cancels;
  c.early_ends = 0;
  return ExploreInterleavings(c);
}

// By hand: a request of two steps arrives (1), its steps return (2, 3). Its client can leave during
// the first step, with its return, during the second, or with its return.
TEST(ExplorerTest, CountsTheOrdersOfASingleRequest) {
  const Exploration alone = OfForgetful(1, 0);
  EXPECT_EQ(alone.failure, "");
  EXPECT_EQ(alone.states, 4);
  EXPECT_EQ(alone.transitions, 3);
  EXPECT_EQ(alone.ends, 1);
  const Exploration leaving = OfForgetful(1, 1);
  EXPECT_EQ(leaving.failure, "");
  EXPECT_EQ(leaving.states, 10);
  EXPECT_EQ(leaving.transitions, 9);
  EXPECT_EQ(leaving.ends, 5);
  EXPECT_EQ(leaving.longest, 4);
}

TEST(ExplorerTest, FindsTheOneOrderThatLosesARequest) {
  EXPECT_EQ(OfForgetful(3, 0).failure, "");
  EXPECT_EQ(OfForgetful(2, 1).failure, "") << "nobody waits behind the one that leaves";
  EXPECT_THAT(OfForgetful(3, 1).failure, ::testing::HasSubstr("leaves"));
}

INSTANTIATE_TEST_SUITE_P(AllPolicies, InterleavingsTest, ::testing::ValuesIn(PolicyModes()),
                         [](const auto& mode) { return mode.param.name; });

}  // namespace
}  // namespace twin::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  using twin::testing::size;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto number = [&](std::string_view name) {
      return argument.starts_with(name) ? std::atoll(argv[i] + name.size()) : 0;
    };
    if (const auto n = number("--requests=")) size.requests = static_cast<std::int32_t>(n);
    if (const auto n = number("--configs=")) size.configs = static_cast<std::uint64_t>(n);
    if (const auto n = number("--transitions=")) size.transitions = n;
  }
  return RUN_ALL_TESTS();
}
