// Many clients at once, the wall clock, and real models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "core/random.h"
#include "run/served_run.h"
#include "tests/unit/serve/serving_scene.h"

namespace twin::run {
namespace {

using ::testing::SizeIs;
using ServingLoadTest = ServingScene;

// Thousands of requests and cancellations from several threads at once.
void ServeHostileClients(ServingEngine& engine, int threads, int requests) {
  std::vector<std::thread> clients;
  std::vector<std::vector<std::shared_ptr<Heard>>> heard(static_cast<std::size_t>(threads));
  for (int t = 0; t < threads; ++t) {
    clients.emplace_back([&engine, &mine = heard[static_cast<std::size_t>(t)], t, requests] {
      Random random(static_cast<std::uint64_t>(t), "client");
      std::vector<GenerationId> open;
      for (int i = 0; i < requests; ++i) {
        const auto prompt = static_cast<std::size_t>(random.UniformInt(1, 40));
        GenerationRequest request =
            Asked(std::vector<std::int32_t>(prompt, static_cast<std::int32_t>(i % 7)),
                  static_cast<std::int32_t>(random.UniformInt(1, 60)));
        request.priority = static_cast<std::int32_t>(random.UniformInt(-2, 2));
        auto sink = std::make_shared<Heard>();
        const auto result = engine.Submit(std::move(request), sink);
        if (const auto* const id = std::get_if<GenerationId>(&result)) {
          open.push_back(*id);
          mine.push_back(std::move(sink));
        }
        if (random.UniformInt(0, 2) > 0 || open.empty()) continue;
        const auto pick = static_cast<std::size_t>(
            random.UniformInt(0, static_cast<std::int64_t>(open.size()) - 1));
        engine.Cancel(open[pick], random.UniformInt(0, 1) == 0 ? CancelReason::kClientLeft
                                                               : CancelReason::kStopString);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  engine.Drain();
  ASSERT_TRUE(engine.AwaitDrained(kLongTime));
  for (const auto& of_thread : heard) {
    for (const auto& one : of_thread) EXPECT_EQ(one->Ends(), 1);
  }
}

TEST_F(ServingLoadTest, SurvivesHostileClients) {
  const auto engine = Start(Experiment());
  ServeHostileClients(*engine, 4, 750);
  const RunOutcome outcome = engine->Finish();  // finds the pool empty
  EXPECT_FALSE(outcome.interrupted);
  EXPECT_EQ(Count(outcome, "completed") + Count(outcome, "cancelled") + Count(outcome, "rejected"),
            Count(outcome, "requests"));
  EXPECT_EQ(Replayed(options_.out / "record.pb"), Digest(outcome));
}

TEST_F(ServingLoadTest, SurvivesHostileClientsOfACluster) {
  ExperimentConfig config = Experiment();
  config.system.replicas = 3;
  const auto engine = Start(config);
  ServeHostileClients(*engine, 3, 200);
  const RunOutcome outcome = engine->Finish();
  EXPECT_EQ(Replayed(options_.out / "record.pb"), Digest(outcome));
}

// The process dies in the middle of an answer, without any chance to write.
TEST_F(ServingLoadTest, AKilledServiceLeavesARecordThatReplays) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto engine = Start(Experiment());
    Answer(*engine, Asked({1, 2, 3}, 30));
    const auto heard = std::make_shared<Heard>();
    Submit(*engine, Asked({4, 5, 6}, 100), heard);
    heard->AwaitTokens(20);
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_NE(Replayed(options_.out / "record.pb"), "");
  const ServedRun run = ReadServedRun(options_.out);
  EXPECT_FALSE(run.complete);
  ASSERT_THAT(run.requests, SizeIs(2));
  EXPECT_EQ(run.requests[0].output_tokens, 30);
  EXPECT_THAT(run.departures, SizeIs(1));  // the second one's, by the end of the service
  EXPECT_GE(run.recorded.plans, 48u);
}

// By the wall clock: no token before its time, however busy the machine is.
TEST_F(ServingLoadTest, TellsNothingBeforeItsTime) {
  class Prompt final : public GenerationSink {
   public:
    explicit Prompt(ServingEngine& engine) : engine_(engine) {}
    void OnToken(const GeneratedToken& token) override {
      ++tokens;
      if (engine_.now() < token.due) ++early;
    }
    void OnEnd(const GenerationEnd&) override {}
    std::atomic<int> tokens = 0;
    std::atomic<int> early = 0;

   private:
    ServingEngine& engine_;
  };
  options_.clock = nullptr;
  const auto engine = Start(Experiment("emulated { speed: 4 }"));
  const auto sink = std::make_shared<Prompt>(*engine);
  for (int i = 0; i < 3; ++i) engine->Submit(Asked({1, 2, i}, 20), sink);
  engine->Drain();
  ASSERT_TRUE(engine->AwaitDrained(kLongTime));
  EXPECT_EQ(sink->tokens, 60);
  EXPECT_EQ(sink->early, 0);
  // 20 steps of 10 ms at least.
  EXPECT_GE(engine->now(), kTimeZero + std::chrono::milliseconds(200));
}

class RealServingTest : public ServingLoadTest {
 protected:
  static ExperimentConfig Real() { return Experiment("real { dummy_weights: true threads: 1 }"); }
};

TEST_F(RealServingTest, ServesClientsPromptsOnTheCpu) {
  const auto engine = Start(Real());
  EXPECT_FALSE(engine->model().emulated);
  EXPECT_TRUE(engine->model().samples);
  const auto one = Answer(*engine, Asked({1, 2, 3, 4, 5, 6, 7, 8, 9}, 6));
  EXPECT_THAT(one->Tokens(), SizeIs(6));
  EXPECT_EQ(one->End().reason, EndReason::kLength);
  const auto again = Answer(*engine, Asked({1, 2, 3, 4, 5, 6, 7, 8, 9}, 6));
  EXPECT_EQ(again->Tokens(), one->Tokens());
  EXPECT_EQ(again->End().cached_prompt_tokens, 8);
  GenerationRequest stops = Asked({1, 2, 3, 4, 5, 6, 7, 8, 9}, 6);
  stops.stop_token_ids = {one->Tokens()[2]};
  const auto stopped = Answer(*engine, stops);
  EXPECT_LE(stopped->Tokens().size(), 3u);
  EXPECT_EQ(stopped->Tokens().back(), one->Tokens()[2]);
  EXPECT_EQ(stopped->End().reason, EndReason::kStopToken);
  const RunOutcome outcome = engine->Finish();
  EXPECT_EQ(Replayed(options_.out / "record.pb"), Digest(outcome));
  EXPECT_TRUE(fs::exists(options_.out / "parts.csv"));
}

// The probabilities of all 101 tokens add up to one, and the greedy token is the likeliest.
TEST_F(RealServingTest, TellsLogprobsWhereTheyAreAskedFor) {
  const auto engine = Start(Real());
  GenerationRequest asked = Asked({1, 2, 3}, 4);
  asked.logprobs = 101;
  const std::vector<GeneratedToken> told = Answer(*engine, asked)->Told();
  ASSERT_THAT(told, SizeIs(4));
  for (const GeneratedToken& token : told) {
    ASSERT_THAT(token.alternatives, SizeIs(101));
    double sum = 0;
    for (const AlternativeToken& one : token.alternatives) sum += std::exp(double{one.logprob});
    EXPECT_NEAR(sum, 1, 1e-4);
    EXPECT_EQ(token.alternatives[0].token, token.token);
    EXPECT_EQ(token.alternatives[0].logprob, token.logprob);
    EXPECT_LT(token.logprob, 0);
  }
  for (const GeneratedToken& token : Answer(*engine, Asked({1, 2, 3}, 4))->Told()) {
    EXPECT_THAT(token.alternatives, SizeIs(0));
  }
}

TEST_F(RealServingTest, SamplesAsAsked) {
  const auto engine = Start(Real());
  GenerationRequest hot = Asked({1, 2, 3}, 30);
  hot.sampling = {.temperature = 2, .seed = 3};
  const auto drawn = Answer(*engine, hot)->Tokens();
  EXPECT_EQ(Answer(*engine, hot)->Tokens(), drawn);
  hot.sampling.seed = 4;
  EXPECT_NE(Answer(*engine, hot)->Tokens(), drawn);
}

TEST_F(RealServingTest, SurvivesHostileClients) {
  const auto engine = Start(Real());
  ServeHostileClients(*engine, 3, 60);
  const RunOutcome outcome = engine->Finish();
  EXPECT_EQ(Replayed(options_.out / "record.pb"), Digest(outcome));
}

}  // namespace
}  // namespace twin::run
