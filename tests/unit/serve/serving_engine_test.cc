// Requests of many threads served by one scheduler, emulated and real.
#include "apps/serve/service/serving_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "core/input_error.h"
#include "run/served_run.h"
#include "tests/unit/serve/serving_scene.h"

namespace twin::run {
namespace {

using ServingEngineTest = ServingScene;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(ServingEngineTest, TellsTokensWhenTheirStepsEnd) {
  options_.drawn_tokens = {3, 5, 7};
  const auto engine = Start(Experiment());
  EXPECT_TRUE(engine->model().emulated);
  EXPECT_EQ(engine->model().vocabulary, 101);
  EXPECT_EQ(engine->model().blocks, 63);  // vLLM V1 keeps a null block
  const auto heard = Answer(*engine, Asked({1, 2, 3, 4, 5}, 4));
  EXPECT_THAT(heard->Tokens(), SizeIs(4));
  EXPECT_THAT(heard->Tokens(), Each(::testing::AnyOf(3, 5, 7)));
  const GenerationEnd end = heard->End();
  EXPECT_EQ(end.reason, EndReason::kLength);
  EXPECT_EQ(end.generated_tokens, 4);
  // The first step begins when the request comes, and each takes 10 ms.
  const TimePoint first = end.first_scheduled + std::chrono::milliseconds(10);
  EXPECT_THAT(heard->Due(), ElementsAre(first, first + std::chrono::milliseconds(10),
                                        first + std::chrono::milliseconds(20),
                                        first + std::chrono::milliseconds(30)));
  EXPECT_EQ(end.last_token, heard->Due().back());
}

TEST_F(ServingEngineTest, EqualPromptsGetEqualAnswersUnlessTheySample) {
  const auto engine = Start(Experiment());
  const auto one = Answer(*engine, Asked({1, 2, 3}, 20))->Tokens();
  EXPECT_EQ(Answer(*engine, Asked({1, 2, 3}, 20))->Tokens(), one);
  EXPECT_NE(Answer(*engine, Asked({1, 2, 4}, 20))->Tokens(), one);
  GenerationRequest sampled = Asked({1, 2, 3}, 20);
  sampled.sampling.temperature = 1;
  const auto drawn = Answer(*engine, sampled)->Tokens();
  EXPECT_NE(Answer(*engine, sampled)->Tokens(), drawn);
  sampled.sampling.seed = 9;
  EXPECT_EQ(Answer(*engine, sampled)->Tokens(), Answer(*engine, sampled)->Tokens());
}

TEST_F(ServingEngineTest, StopTokensEndAnAnswerThatIsLongEnough) {
  options_.drawn_tokens = {3};
  const auto engine = Start(Experiment());
  GenerationRequest request = Asked({1, 2}, 10);
  request.stop_token_ids = {3};
  const auto at_once = Answer(*engine, request);
  EXPECT_THAT(at_once->Tokens(), ElementsAre(3));
  EXPECT_EQ(at_once->End().reason, EndReason::kStopToken);
  request.min_tokens = 4;
  EXPECT_THAT(Answer(*engine, request)->Tokens(), SizeIs(5));  // four, and the one that ends it
}

TEST_F(ServingEngineTest, AnswersEndWhereTheExperimentSaysUnlessTheyIgnoreIt) {
  options_.end_tokens = {2};
  const auto engine = Start(Experiment("emulated { output { kind: fixed value: 6 } }"));
  const auto ended = Answer(*engine, Asked({1}, 10));
  EXPECT_THAT(ended->Tokens(), SizeIs(6));
  EXPECT_EQ(ended->Tokens().back(), 2);
  EXPECT_EQ(ended->End().reason, EndReason::kStop);
  EXPECT_EQ(Answer(*engine, Asked({1}, 3))->End().reason, EndReason::kLength);
  GenerationRequest whole = Asked({1}, 10);
  whole.ignore_eos = true;
  EXPECT_THAT(Answer(*engine, whole)->Tokens(), SizeIs(10));
}

TEST_F(ServingEngineTest, SharesPrefixesOfEqualTokensAndSalt) {
  const auto engine = Start(Experiment());
  const std::vector<std::int32_t> prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ(Answer(*engine, Asked(prompt, 2))->End().cached_prompt_tokens, 0);
  EXPECT_EQ(Answer(*engine, Asked(prompt, 2))->End().cached_prompt_tokens, 8);
  GenerationRequest salted = Asked(prompt, 2);
  salted.cache_salt = 1;
  EXPECT_EQ(Answer(*engine, salted)->End().cached_prompt_tokens, 0);
  EXPECT_EQ(Answer(*engine, salted)->End().cached_prompt_tokens, 8);
  // A conversation goes on: prompt and answer of the first turn are cached, but for an open block.
  std::vector<std::int32_t> turn = {11, 12, 13, 14};
  const auto answer = Answer(*engine, Asked(turn, 9))->Tokens();
  turn.insert(turn.end(), answer.begin(), answer.end());
  turn.insert(turn.end(), {21, 22, 23, 24});
  EXPECT_EQ(Answer(*engine, Asked(turn, 2))->End().cached_prompt_tokens, 12);
  const ServiceState state = engine->state();
  EXPECT_EQ(state.cache_hit_tokens, 8 + 8 + 12);
  EXPECT_EQ(state.cache_queried_tokens, 4 * 9 + 4 + 17);
}

TEST_F(ServingEngineTest, ClientsThatLeaveAndStopStringsEndRequests) {
  clock_.Allow(Duration{0});  // until both have come
  const auto engine = Start(Experiment());
  const auto leaves = std::make_shared<Heard>();
  const auto stops = std::make_shared<Heard>();
  const GenerationId left = Submit(*engine, Asked({1}, 100), leaves);
  const GenerationId stopped = Submit(*engine, Asked({2}, 100), stops);
  clock_.Allow(std::chrono::milliseconds(55));
  leaves->AwaitTokens(2);
  stops->AwaitTokens(2);
  engine->Cancel(left, CancelReason::kClientLeft);
  engine->Cancel(stopped, CancelReason::kStopString);
  EXPECT_EQ(leaves->End().reason, EndReason::kCancelled);
  EXPECT_EQ(stops->End().reason, EndReason::kCancelled);
  clock_.Allow(Duration::max());
  engine->Cancel(left, CancelReason::kClientLeft);  // too late, and harmless
  const RunOutcome outcome = engine->Finish();
  EXPECT_EQ(Count(outcome, "completed"), 1);
  EXPECT_EQ(Count(outcome, "cancelled"), 1);
  EXPECT_EQ(leaves->Ends(), 1);
  EXPECT_EQ(Replayed(options_.out / "record.pb"), Digest(outcome));
}

TEST_F(ServingEngineTest, RefusesWhatDoesNotFitIntoItsQueueAndRecordsIt) {
  options_.waiting_requests_max = 2;
  options_.waiting_prompt_tokens_max = 10;
  clock_.Allow(Duration{0});
  const auto engine = Start(Experiment("emulated {}", "vllm_v1 { max_num_seqs: 1 }"));
  const auto heard = std::make_shared<Heard>();
  Submit(*engine, Asked({1}, 5), heard);
  while (engine->state().running < 1) std::this_thread::yield();
  Submit(*engine, Asked({1, 2, 3, 4, 5, 6}, 5), std::make_shared<Heard>());
  EXPECT_EQ(std::get<Refusal>(engine->Submit(Asked({1, 2, 3, 4, 5}, 6), heard)),
            Refusal::kQueueFull);
  Submit(*engine, Asked({1, 2, 3, 4}, 5), std::make_shared<Heard>());
  EXPECT_EQ(std::get<Refusal>(engine->Submit(Asked({1}, 7), heard)), Refusal::kQueueFull);
  EXPECT_EQ(engine->state().waiting, 2);
  EXPECT_EQ(engine->state().waiting_prompt_tokens, 10);
  EXPECT_EQ(engine->state().refused_requests, 2);
  engine->Drain();
  EXPECT_EQ(std::get<Refusal>(engine->Submit(Asked({1}, 8), heard)), Refusal::kDraining);
  clock_.Allow(Duration::max());
  EXPECT_TRUE(engine->AwaitDrained(kLongTime));
  EXPECT_FALSE(engine->state().ready);
  const RunOutcome outcome = engine->Finish();
  EXPECT_EQ(Count(outcome, "completed"), 3);
  EXPECT_EQ(Count(outcome, "refused"), 2);
  EXPECT_EQ(Replayed(options_.out / "record.pb"), Digest(outcome));
  std::vector<std::pair<std::int32_t, bool>> refused;
  for (const RefusedRequest& one : refused_) {
    refused.emplace_back(one.max_output_tokens, one.draining);
  }
  EXPECT_THAT(refused, ElementsAre(std::pair(6, false), std::pair(7, false), std::pair(8, true)));
}

TEST_F(ServingEngineTest, EndsStreamsThatItDoesNotFinish) {
  clock_.Allow(std::chrono::milliseconds(25));
  const auto engine = Start(Experiment());
  const auto heard = std::make_shared<Heard>();
  Submit(*engine, Asked({1}, 100), heard);
  heard->AwaitTokens(2);
  const RunOutcome outcome = engine->Finish();
  EXPECT_TRUE(outcome.interrupted);
  EXPECT_EQ(heard->End().reason, EndReason::kAborted);
  EXPECT_EQ(heard->End().generated_tokens, 2);
  EXPECT_EQ(Replayed(options_.out / "record.pb"), Digest(outcome));
}

TEST_F(ServingEngineTest, RejectedRequestsSaySo) {
  const auto engine = Start(Experiment());
  // 130 tokens are more than the model's 128 positions.
  const auto heard = Answer(*engine, Asked(std::vector<std::int32_t>(130, 1), 1));
  EXPECT_EQ(heard->End().reason, EndReason::kRejected);
  EXPECT_THAT(heard->Tokens(), IsEmpty());
}

// Static batching delivers with the end of the batch.
TEST_F(ServingEngineTest, BatchesAreDeliveredTogether) {
  const auto engine = Start(Experiment("emulated {}", "static { max_batch_size: 4 }"));
  const auto heard = Answer(*engine, Asked({1, 2}, 5));
  EXPECT_THAT(heard->Tokens(), SizeIs(5));
  EXPECT_THAT(heard->Due(), Each(heard->End().last_token));
}

// A killed process leaves the files as they had been written by then.
TEST_F(ServingEngineTest, TheRecordOfARunThatGoesOnReplays) {
  const auto engine = Start(Experiment());
  Answer(*engine, Asked({1, 2, 3}, 50));
  EXPECT_TRUE(fs::exists(options_.out / "config.resolved.textproto"));
  const fs::path copy = folder_ / "copy.pb";
  fs::copy_file(options_.out / "record.pb", copy);
  EXPECT_NE(Replayed(copy), "");
  RecordReader reader(copy, RecordReader::WithoutEnd::kReadWhatIsThere);
  Instant instant;
  while (reader.NextInstant(instant)) {
  }
  EXPECT_FALSE(reader.complete());
  EXPECT_GE(reader.end().plans, 48u);
  EXPECT_FALSE(engine->Record().empty());
}

// An emulated run and the simulation of what its clients did are the same run: arrivals, shared
// prefixes, a client that leaves, and a stop string.
TEST_F(ServingEngineTest, TheSimulationOfAServedRunIsThatRun) {
  const auto engine = Start(Experiment());
  const std::vector<std::int32_t> prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  Answer(*engine, Asked(prompt, 3));
  Answer(*engine, Asked(prompt, 5));
  clock_.Allow(engine->now().time_since_epoch() + std::chrono::milliseconds(25));
  const auto leaves = std::make_shared<Heard>();
  const GenerationId left = Submit(*engine, Asked({1, 2}, 40), leaves);
  leaves->AwaitTokens(2);
  engine->Cancel(left, CancelReason::kClientLeft);
  leaves->End();
  clock_.Allow(Duration::max());
  Answer(*engine, Asked({9}, 1));
  clock_.Allow(engine->now().time_since_epoch() + std::chrono::milliseconds(25));
  const auto stops = std::make_shared<Heard>();
  const GenerationId stopped = Submit(*engine, Asked({3, 4}, 40), stops);
  stops->AwaitTokens(2);
  engine->Cancel(stopped, CancelReason::kStopString);
  stops->End();
  clock_.Allow(Duration::max());
  const RunOutcome outcome = engine->Finish();

  const ServedComparison comparison = CompareServedRun(options_.out, {}, control_);
  const ServedRun& served = comparison.served;
  EXPECT_EQ(served.replay.digest_text, Digest(outcome));
  EXPECT_TRUE(served.complete);
  ASSERT_THAT(served.requests, SizeIs(5));
  EXPECT_EQ(served.requests[4].output_tokens, 2);  // until the stop string
  ASSERT_THAT(served.departures, SizeIs(1));
  EXPECT_EQ(served.departures[0].cancelled.request, RequestId{2});
  for (const char* const name : {"completed", "cancelled", "total_output_tokens", "mean_ttft_ms",
                                 "mean_tpot_ms", "prefix_hit_share"}) {
    // The stop string ends its request a nanosecond after its last token.
    EXPECT_NEAR(comparison.simulated.Number(name), served.measured.Number(name), 1e-5) << name;
  }
  EXPECT_EQ(served.measured.Number("completed"), 4);
  EXPECT_GT(served.measured.Number("prefix_hit_share"), 0);
}

TEST_F(ServingEngineTest, OffersWhatWasRefusedToo) {
  ServedRun run;
  run.requests.resize(2);
  run.requests[0].arrival = TimePoint{Duration{1}};
  run.requests[1].arrival = TimePoint{Duration{9}};
  run.refused = {{.time = TimePoint{Duration{4}}, .prompt_tokens = 7, .max_output_tokens = 8}};
  const std::vector<TracedRequest> offered = OfferedRequests(run);
  ASSERT_THAT(offered, SizeIs(3));
  EXPECT_EQ(offered[1].prompt_tokens, 7);
  EXPECT_EQ(offered[1].output_tokens, 8);
}

TEST_F(ServingEngineTest, RefusesExperimentsThatItCannotServe) {
  EXPECT_THROW(Start(Experiment("simulated {}")), InputError);
}

}  // namespace
}  // namespace twin::run
