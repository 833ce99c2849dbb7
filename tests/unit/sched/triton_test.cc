#include "sched/policy/triton.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "core/input_error.h"
#include "sched/engine.h"

namespace twin {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

using Ids = std::vector<std::uint32_t>;

TimePoint At(std::int64_t ms) { return kTimeZero + milliseconds(ms); }

// An engine with one-token requests: a batch is one step.
class TritonTest : public ::testing::Test {
 protected:
  void Start(const TritonConfig& config) {
    EngineConfig engine;
    engine.kv = {.block_size = 1, .blocks = 100};
    engine_ = std::make_unique<Engine>(engine, std::make_unique<TritonPolicy>(config));
  }

  void Arrive(std::uint32_t id, std::int64_t ms, std::int32_t priority = 0,
              std::int32_t output = 1) {
    engine_->Handle(RequestArrived{{.id = RequestId{id},
                                    .arrival = At(ms),
                                    .prompt_tokens = 1,
                                    .max_output_tokens = output,
                                    .priority = priority}});
  }

  // The batch that is sent at this time, empty if none is.
  Ids Send(std::int64_t ms) {
    const StepPlan* plan = engine_->PlanStep(At(ms));
    Ids ids;
    if (plan == nullptr) return ids;
    sent_ = plan->id;
    for (const WorkItem& item : plan->work) {
      ids.push_back(Index(item.request));
      work_[plan->id].push_back(item.request);
    }
    return ids;
  }

  // The batch of this step ends with one token for each of its requests.
  void Finish(StepId step) {
    std::vector<ItemOutcome> outcomes;
    for (const RequestId id : work_[step]) outcomes.push_back({id, 1, FinishReason::kLength});
    engine_->Handle(StepFinished{step, kTimeZero, outcomes, {}});
  }

  // Example 1c: arrivals A@0 B@3 C@9 D@12 E@13 F@14 G@15 H@16, one copy, batches of 20 ms.
  std::vector<std::pair<std::int64_t, Ids>> RunExample1c(std::int64_t delay_ms) {
    Start({.max_batch_size = 4,
           .preferred_batch_size = {4},
           .max_queue_delay_microseconds = delay_ms * 1000});
    const std::vector<std::int64_t> arrivals = {0, 3, 9, 12, 13, 14, 15, 16};
    std::vector<std::pair<std::int64_t, Ids>> batches;
    std::int64_t free_at = 0;
    std::uint32_t next = 0;
    for (std::int64_t ms = 0; ms < 200; ++ms) {
      if (free_at == ms && !batches.empty()) Finish(sent_);
      while (next < arrivals.size() && arrivals[next] == ms) Arrive(next++, ms);
      if (Ids ids = Send(ms); !ids.empty()) {
        batches.emplace_back(ms, ids);
        free_at = ms + 20;
      }
    }
    return batches;
  }

  std::unique_ptr<Engine> engine_;
  StepId sent_{};
  std::map<StepId, std::vector<RequestId>> work_;
};

TEST_F(TritonTest, Example1c) {
  EXPECT_THAT(RunExample1c(10),
              ElementsAre(Pair(10, Ids{0, 1, 2}), Pair(30, Ids{3, 4, 5, 6}), Pair(50, Ids{7})));
}

TEST_F(TritonTest, Example1cWithoutADelay) {
  EXPECT_THAT(RunExample1c(0),
              ElementsAre(Pair(0, Ids{0}), Pair(20, Ids{1, 2, 3, 4}), Pair(40, Ids{5, 6, 7})));
}

TEST_F(TritonTest, WaitsUntilTheWindowOfTheOldestEnds) {
  Start({.max_batch_size = 4, .max_queue_delay_microseconds = 10'000});
  Arrive(0, 2);
  EXPECT_THAT(Send(2), IsEmpty());
  EXPECT_EQ(engine_->wake_at(), At(12));
  Arrive(1, 5);
  EXPECT_THAT(Send(5), IsEmpty());
  EXPECT_EQ(engine_->wake_at(), At(12));
  EXPECT_EQ(Send(12), (Ids{0, 1}));
  EXPECT_EQ(engine_->wake_at(), kTimeNever);
}

TEST_F(TritonTest, ThePreferredSizeIsSentBeforeItsWindowEndsAndOverruledBehindIt) {
  const TritonConfig config = {
      .max_batch_size = 8, .preferred_batch_size = {4, 2}, .max_queue_delay_microseconds = 10'000};
  Start(config);
  for (const std::uint32_t id : {0U, 1U, 2U}) Arrive(id, 0);
  EXPECT_EQ(Send(9), (Ids{0, 1}));
  Start(config);
  for (const std::uint32_t id : {0U, 1U, 2U}) Arrive(id, 0);
  EXPECT_EQ(Send(10), (Ids{0, 1, 2}));
}

TEST_F(TritonTest, LevelsComeInOrderAndTheOldestOfTheBatchSetsTheWindow) {
  Start({.max_batch_size = 2,
         .max_queue_delay_microseconds = 10'000,
         .priority_levels = 2,
         .default_priority_level = 2});
  Arrive(0, 0, /*priority=*/2);
  EXPECT_THAT(Send(0), IsEmpty());
  Arrive(1, 4, /*priority=*/9);  // no level: the default
  Arrive(2, 4, /*priority=*/1);
  EXPECT_EQ(Send(4), (Ids{2, 0}));
  Finish(sent_);
  EXPECT_THAT(Send(5), IsEmpty());
  EXPECT_EQ(engine_->wake_at(), At(14));
}

TEST_F(TritonTest, CopiesOfTheModelRunBatchesThatReturnInAnyOrder) {
  Start({.max_batch_size = 2, .instance_count = 2});
  for (std::uint32_t id = 0; id < 5; ++id) Arrive(id, 0);
  EXPECT_EQ(Send(0), (Ids{0, 1}));
  const StepId first = sent_;
  EXPECT_EQ(Send(0), (Ids{2, 3}));
  const StepId second = sent_;
  EXPECT_THAT(Send(1), IsEmpty());  // both are busy
  Finish(second);
  EXPECT_EQ(Send(2), Ids{4});
  Finish(sent_);
  Finish(first);
  EXPECT_NO_THROW(engine_->CheckDrained());
}

TEST_F(TritonTest, ABatchRunsToItsEndBeforeTheNextOneIsFormed) {
  Start({.max_batch_size = 2});
  Arrive(0, 0, 0, /*output=*/2);
  EXPECT_EQ(Send(0), Ids{0});
  Arrive(1, 1);
  engine_->Handle(StepFinished{sent_, kTimeZero, {}, {}});
  EXPECT_EQ(Send(2), Ids{0});
  Finish(sent_);
  EXPECT_EQ(Send(3), Ids{1});
}

TEST(TritonConfigTest, RefusesSizesBeyondTheBatchAndADefaultBeyondTheLevels) {
  EXPECT_THROW((TritonConfig{.max_batch_size = 4, .preferred_batch_size = {5}}.Validate()),
               InputError);
  EXPECT_THROW((TritonConfig{.preferred_batch_size = {0}}.Validate()), InputError);
  EXPECT_THROW((TritonConfig{.priority_levels = 2}.Validate()), InputError);
  EXPECT_THROW((TritonConfig{.priority_levels = 2, .default_priority_level = 3}.Validate()),
               InputError);
  EXPECT_NO_THROW((TritonConfig{.priority_levels = 2, .default_priority_level = 2}.Validate()));
}

}  // namespace
}  // namespace twin
