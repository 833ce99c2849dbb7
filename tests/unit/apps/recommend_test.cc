// Recommendations: which configurations are tried, what is refused, and what is found.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/recommend/candidate.h"
#include "apps/recommend/longest_request.h"
#include "apps/recommend/recommendation.h"
#include "apps/recommend/recommendation_json.h"
#include "core/input_error.h"
#include "tests/unit/apps/small_requests.h"
#include "tests/unit/traces/trace_samples.h"

namespace twin::run {
namespace {

using testing::Answer;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::FleetRequest;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kTiny;
using testing::Replaced;
using testing::Request;
using ::testing::StartsWith;

std::string ErrorOf(const std::string& text) {
  try {
    (void)Answer(Request(text));
  } catch (const InputError& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "";
}

// 1,000 and 152 tokens: 1,152, and the next eighth of 2,048 is 1,280.
TEST(LongestRequestTest, TheLimitComesFromTheLoad) {
  std::string text = Replaced(kTiny, "kind: uniform min: 100 max: 900", "kind: fixed value: 1000");
  text = Replaced(text, "kind: uniform min: 2 max: 40", "kind: fixed value: 152");
  const Recommendation answer = Answer(Request(Replaced(text, "[2, 8, 64]", "[64]")));
  ASSERT_FALSE(answer.configurations.empty());
  EXPECT_THAT(answer.configurations[0].command, HasSubstr("--max-model-len 1280"));
  EXPECT_THAT(answer.assumptions,
              Contains("max_model_len comes from the longest of 100000 requests of the load, 1152 "
                       "tokens with the limit of its output: 1280, rounded up"));
}

TEST(LongestRequestTest, AGivenLimitIsTaken) {
  const std::string text = Replaced(kTiny, "[2, 8, 64]", "[64]") + "max_model_len: 3000";
  const Recommendation answer = Answer(Request(text));
  ASSERT_FALSE(answer.configurations.empty());
  EXPECT_THAT(answer.configurations[0].command, HasSubstr("--max-model-len 3000"));
  EXPECT_THAT(answer.assumptions, ::testing::Not(Contains(HasSubstr("max_model_len"))));
}

// 20 turns of 200 and 50 tokens: the last prompt repeats 19 turns, 19 * 250 + 200.
TEST(LongestRequestTest, TurnsAreAsLongAsTheirConversation) {
  WorkloadConfig workload;
  workload.arrivals = {.kind = ArrivalConfig::Kind::kClosedLoop, .users = 3};
  workload.shape.prompt = {.kind = IntegerDistribution::Kind::kFixed, .value = 200};
  workload.shape.output = {.kind = IntegerDistribution::Kind::kFixed, .value = 50};
  workload.shape.sessions.turns = {.kind = IntegerDistribution::Kind::kFixed, .value = 20};
  const LongestRequest longest = LongestRequestOf(workload, 1);
  EXPECT_EQ(longest.tokens, 20 * 250);
  EXPECT_EQ(longest.requests, 100'000);
}

TEST(LongestRequestTest, KnowsHowManyRequestsArriveInASecond) {
  WorkloadConfig workload;
  workload.arrivals = {.kind = ArrivalConfig::Kind::kConstant, .rate = 4};
  workload.shape.prompt = {.kind = IntegerDistribution::Kind::kFixed, .value = 200};
  workload.shape.output = {.kind = IntegerDistribution::Kind::kFixed, .value = 50};
  EXPECT_NEAR(LongestRequestOf(workload, 1).requests_per_s, 4, 1e-6);
}

TEST(PlausibleLimitTest, IsTheNextOfUsualLengths) {
  for (const auto& [tokens, limit] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 256},
                                                          {256, 256},
                                                          {257, 320},
                                                          {1024, 1024},
                                                          {1025, 1280},
                                                          {4900, 5120},
                                                          {8192, 8192}}) {
    EXPECT_EQ(PlausibleLimit(tokens), limit) << tokens;
  }
}

TEST(CandidateSpaceTest, TheGridHoldsEachConfigurationOnce) {
  const RecommendConfig request = Request(kTiny);
  const CandidateSpace space(request);
  EXPECT_EQ(space.Grid().size(), 3u * 3u);
  CostCache costs;
  std::vector<RejectedSettings> rejected;
  EXPECT_EQ(space.All(costs, rejected).size(), 9u);
  EXPECT_THAT(rejected, IsEmpty());
  // The server's own values are 8192 tokens and 1024 sequences on this device, which the usual
  // values repeat: 4 budgets of 5 and 3 limits of 4 remain.
  const RecommendConfig open = Request(Replaced(
      Replaced(kTiny, "token_budget: [128, 256, 512]", ""), "max_num_seqs: [2, 8, 64]", ""));
  const CandidateSpace all(open);
  EXPECT_EQ(all.Grid().size(), 5u * 4u);
  EXPECT_EQ(all.All(costs, rejected).size(), 4u * 3u);
}

TEST(CandidateSpaceTest, EnginesFillTheDevices) {
  const RecommendConfig request = Request(Replaced(kTiny, "hardware { name: \"h100-sxm\" }",
                                                   "hardware { name: \"h100-sxm\" devices: 4 }"));
  std::vector<std::string> layouts;
  for (const Layout& layout : CandidateSpace(request).LayoutsOf(0, "vllm-0.33.0")) {
    layouts.push_back(fmt::format("{}x{}x{}, {} prefill", layout.parallelism.tensor,
                                  layout.parallelism.pipeline, layout.replicas,
                                  layout.prefill_replicas));
  }
  EXPECT_THAT(layouts, ElementsAre("1x1x4, 0 prefill", "1x1x4, 1 prefill", "1x1x4, 2 prefill",
                                   "1x2x2, 0 prefill", "1x4x1, 0 prefill", "2x1x2, 0 prefill",
                                   "2x1x2, 1 prefill", "2x2x1, 0 prefill", "4x1x1, 0 prefill"));
}

TEST(CandidateSpaceTest, OnlySystemsThatCanSeparatePrefillAreTriedSo) {
  const RecommendConfig request = Request(Replaced(kTiny, "hardware { name: \"h100-sxm\" }",
                                                   "hardware { name: \"h100-sxm\" devices: 4 }"));
  for (const Layout& layout : CandidateSpace(request).LayoutsOf(0, "tgi-3.3.7"))
    EXPECT_EQ(layout.prefill_replicas, 0);
}

TEST(CandidateSpaceTest, EightBitWeightsAreTriedWhereTheDeviceComputesInThem) {
  const auto types = [](const char* device) {
    const RecommendConfig request =
        Request(Replaced(Replaced(kTiny, "weight_dtype: \"bf16\"", ""), "h100-sxm", device));
    return CandidateSpace(request).DtypesOf(0, 0);
  };
  EXPECT_THAT(types("h100-sxm"), ElementsAre(DType::kBf16, DType::kFp8));
  EXPECT_THAT(types("a100-80gb-sxm"), ElementsAre(DType::kBf16, DType::kInt8));
}

TEST(CandidateSpaceTest, SettingsAreSearchedForTheServersThatHaveThem) {
  const std::string text =
      Replaced(kTiny, "server: \"vllm-0.33.0\"", "server: [\"tgi-3.3.7\", \"trtllm-1.0.0\"]");
  const RecommendConfig request = Request(text);
  const CandidateSpace space(request);
  // 3 budgets each; 3 limits and 2 ways of chunking for one of them.
  EXPECT_EQ(space.Grid().size(), 3u + 3u * 3u * 2u);
  EXPECT_THAT(space.MissingSettingsOf("tgi-3.3.7"),
              ElementsAre("max_num_seqs of tgi-3.3.7: it has no such setting"));
  EXPECT_THAT(space.MissingSettingsOf("trtllm-1.0.0"), IsEmpty());
}

TEST(CandidateSpaceTest, WithoutServersTheNewestOfEachSystemIsTried) {
  const RecommendConfig request = Request(Replaced(kTiny, "server: \"vllm-0.33.0\"", ""));
  EXPECT_THAT(CandidateSpace(request).ServersOf(),
              ElementsAre("vllm-0.33.0", "sglang-0.5.23", "tgi-3.3.7", "trtllm-1.0.0"));
}

TEST(RecommendTest, SystemsAreRankedTogether) {
  std::string text = Replaced(kTiny, "server: \"vllm-0.33.0\"", "");
  text = Replaced(text, "[128, 256, 512]", "[512]");
  text = Replaced(text, "[2, 8, 64]", "[64]") + "max_model_len: 2048";
  // As many tokens for every size of block.
  text = Replaced(text, "blocks_override=600", "kv_bytes_override=1258291200");
  const RecommendConfig request = Request(text);
  const Recommendation answer = Answer(request, true);
  std::vector<std::string> servers;
  for (const RecommendedConfiguration& one : answer.configurations)
    servers.push_back(one.candidate.choice.server);
  // SGLang with two orders; TensorRT-LLM with chunks. Without, it refuses prompts of more than 512
  // tokens, which would make its bounds easy to keep.
  std::ranges::sort(servers);
  EXPECT_THAT(servers, ElementsAre("sglang-0.5.23", "sglang-0.5.23", "tgi-3.3.7", "trtllm-1.0.0",
                                   "vllm-0.33.0"));
  // Another server runs with what the first one has, and is not compared if it refuses requests.
  const auto server = std::ranges::find_if(answer.sensitivity,
                                           [](const auto& one) { return one.path == "server"; });
  ASSERT_NE(server, answer.sensitivity.end());
  for (const SettingEffect& effect : server->effects) {
    EXPECT_EQ(effect.reason.empty(), std::isfinite(effect.change.value)) << effect.value;
    if (effect.value == "trtllm-1.0.0") {
      EXPECT_THAT(effect.reason, HasSubstr("refuses"));
    }
  }
  ASSERT_EQ(answer.rejected.size(), 1u);
  EXPECT_THAT(answer.rejected[0].reason, HasSubstr("of 200 requests, others 0"));
  EXPECT_THAT(answer.assumptions,
              Contains(StartsWith("tgi-3.3.7: defaults of TGI 3.3.7; estimates: host")));
}

TEST(RecommendTest, WeightsThatDoNotFitAreRejectedWithTheirSize) {
  const Recommendation answer =
      Answer(Request(Replaced(Replaced(kTiny, "llama-3-8b", "llama-3-70b"),
                              "\"system.memory.blocks_override=600\", ", "")));
  EXPECT_THAT(answer.configurations, IsEmpty());
  ASSERT_EQ(answer.rejected.size(), 9u);
  EXPECT_THAT(answer.rejected[0].reason, HasSubstr("llama-3-70b does not fit"));
  EXPECT_THAT(answer.rejected[0].reason, HasSubstr("weights 141.107 GB"));
}

TEST(RecommendTest, BoundsThatHoldAtNoLoadRejectAConfiguration) {
  // Alone, a request of 2 tokens and more takes 5 ms a token.
  const Recommendation answer =
      Answer(Request(Replaced(kTiny, "mean_tpot_ms<=15", "mean_tpot_ms<=4")));
  EXPECT_THAT(answer.configurations, IsEmpty());
  ASSERT_EQ(answer.rejected.size(), 9u);
  EXPECT_THAT(answer.rejected[0].reason,
              StartsWith("mean_tpot_ms<=4 does not hold at any load: 5"));
}

// The whole grid at full length, on the same seeds, is the brute force.
TEST(RecommendTest, HalvingFindsWhatBruteForceFinds) {
  const RecommendConfig request = Request(kTiny);
  const Recommendation found = Answer(request);
  const Recommendation all = Answer(request, true);
  ASSERT_EQ(all.configurations.size(), 9u);
  ASSERT_FALSE(found.configurations.empty());
  EXPECT_LT(found.configurations.size(), 9u);
  EXPECT_EQ(found.rungs.front().configurations, 9u);
  EXPECT_LT(found.rungs.back().configurations, 9u);
  // The first is the same, and what both ran at full length has the same numbers,
  // its largest load up to the tolerance: the searches for it began at different loads.
  EXPECT_EQ(found.configurations[0].candidate.choice, all.configurations[0].candidate.choice);
  for (const RecommendedConfiguration& one : found.configurations) {
    const auto same = std::ranges::find_if(all.configurations, [&](const auto& other) {
      return other.candidate.choice == one.candidate.choice;
    });
    ASSERT_NE(same, all.configurations.end());
    for (std::size_t k = 0; k < one.metrics.size(); ++k)
      EXPECT_EQ(same->metrics[k].second.value, one.metrics[k].second.value) << k;
    if (one.rank == 1) {
      EXPECT_NEAR(same->value.value, one.value.value, 0.01 * one.value.value);
    }
  }
}

TEST(RecommendTest, TheAnswerDoesNotDependOnTheNumberOfThreads) {
  const RecommendConfig request =
      Request(Replaced(Replaced(kTiny, "[2, 8, 64]", "[8, 64]"), "requests: 160", "requests: 100"));
  EXPECT_EQ(RecommendationJson(Answer(request, false, 1), request),
            RecommendationJson(Answer(request, false, 4), request));
}

TEST(RecommendTest, TheJsonHasTheNamesThatScriptsRead) {
  const RecommendConfig request = Request(Replaced(kTiny, "[128, 256, 512]", "[512]"));
  const auto json = nlohmann::json::parse(RecommendationJson(Answer(request), request));
  for (const char* key : {"configurations", "sensitivity", "pareto", "rejected", "assumptions",
                          "not_considered", "objective", "unit", "load"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_EQ(json["length_check"]["requests"], 2 * 160);
  EXPECT_LE(json["length_check"]["low"], json["length_check"]["change"]);
  EXPECT_TRUE(json["length_check"]["settled"].is_boolean());
  const auto& first = json["configurations"][0];
  EXPECT_EQ(first["rank"], 1);
  EXPECT_EQ(first["tied"], true);
  EXPECT_EQ(first["parameters"]["max_num_seqs"], 64);
  EXPECT_THAT(first["command"].get<std::string>(), StartsWith("vllm serve llama-3-8b "));
  EXPECT_LE(first["metrics"]["p99_ttft_ms"]["low"], first["metrics"]["p99_ttft_ms"]["mean"]);
  // At the load of the request the bounds hold with room: it is below the capacity.
  EXPECT_GT(first["value"]["mean"].get<double>(), 20);
  EXPECT_EQ(first["margins"][0]["bound"], "mean_ttft_ms<=200");
  EXPECT_GT(first["margins"][0]["margin"].get<double>(), 0);
  for (const char* key : {"path", "elasticity", "low", "high", "effects", "sentence"})
    EXPECT_TRUE(json["sensitivity"][0].contains(key)) << key;
  EXPECT_EQ(json["sensitivity"][0]["path"], "max_num_seqs");
}

// Fewer devices at a lower price serve a request for less, as long as they hold the load.
TEST(RecommendTest, TheCheapestMachineThatHoldsTheLoadComesFirst) {
  std::string text = Replaced(kTiny, "hardware { name: \"h100-sxm\" }",
                              "hardware { name: \"h100-sxm\" price_per_hour: 4 } hardware { name: "
                              "\"h200-sxm\" price_per_hour: 5 }");
  text = Replaced(text, "max_num_seqs: [2, 8, 64]", "max_num_seqs: [2, 64]") + "objective: cost";
  text = Replaced(text, "[128, 256, 512]", "[512]");
  const Recommendation answer = Answer(Request(text));
  ASSERT_EQ(answer.configurations.size(), 2u);  // with 2 sequences, the load does not hold
  EXPECT_EQ(answer.configurations[0].candidate.choice.hardware, 0u);
  EXPECT_FALSE(answer.configurations[1].tied);
  // Both take as long: prices alone differ.
  EXPECT_NEAR(answer.configurations[1].value.value / answer.configurations[0].value.value, 1.25,
              1e-9);
  EXPECT_TRUE(answer.lower_is_better);
  ASSERT_EQ(answer.rejected.size(), 2u);
  EXPECT_THAT(answer.rejected[0].reason, HasSubstr("does not hold at the load"));
}

// Few sequences make many short steps, in which the device draws its base power for few tokens.
TEST(RecommendTest, TheLeastEnergyAtTheLoadComesFirst) {
  std::string text = Replaced(kTiny, "[2, 8, 64]", "[8, 64]") + "objective: energy";
  text = Replaced(text, "[128, 256, 512]", "[512]");
  text = Replaced(text, "until: \"mean_ttft_ms<=200 && mean_tpot_ms<=15\"", "");
  const Recommendation answer = Answer(Request(text));
  EXPECT_EQ(answer.objective, "energy");
  EXPECT_EQ(answer.value_unit, "J per output token");
  EXPECT_TRUE(answer.lower_is_better);
  ASSERT_EQ(answer.configurations.size(), 2u);
  const double best = answer.configurations[0].value.value;
  EXPECT_LE(best, answer.configurations[1].value.value);
  // 20 requests/s of 21 tokens at between the H100's base power of 170 W and its limit of 700 W.
  EXPECT_GT(best, 0.4);
  EXPECT_LT(best, 1.7);
  EXPECT_THAT(ErrorOf(Replaced(text, "h100-sxm", "l40s")),
              HasSubstr("objective: energy needs data sheets with the block energy, which l40s "
                        "lacks"));
}

// 100 arrivals a second apart, then 200 a tenth of a second apart; the runs have the first 160.
TEST(RecommendTest, TheLoadOfATraceIsItsRateOverTheFullRuns) {
  const ScratchDirectory scratch("recommend_trace");
  std::string rows = "arrived_at,num_prefill_tokens,num_decode_tokens\n";
  for (int i = 0; i < 300; ++i)
    rows += fmt::format("{:.1f},100,10\n", i < 100 ? i : 99 + 0.1 * (i - 99));
  std::ofstream(scratch.File("trace.csv")) << rows;
  std::string text = Replaced(kTiny, "[2, 8, 64]", "[64]");
  text = Replaced(text, "[128, 256, 512]", "[512]");
  const std::size_t begin = text.find("workload");
  const std::size_t end = text.find("until");
  text.replace(begin, end - begin,
               fmt::format("workload {{ trace {{ path: \"{}\" }} }}\n", scratch.File("trace.csv")));
  const Recommendation answer = Answer(Request(text + "objective: latency"));
  EXPECT_NEAR(answer.load, 159 / (99 + 6.0), 1e-6);
  EXPECT_FALSE(answer.length_check);  // twice as many requests are not there
  EXPECT_EQ(answer.load_unit, "requests/s");
}

// One request at a time takes 20 steps of 5 ms. At 1 request/s nobody waits, however long the run
// is. At 35 requests/s, the k-th request waits for k (1/10 - 1/35) s, so that twice as many
// requests wait twice as long in the mean.
TEST(RecommendTest, SaysWhetherLongerRunsWouldChangeTheValue) {
  std::string text = Replaced(kTiny, "kind: poisson rate: 20", "kind: constant rate: 1");
  text = Replaced(text, "{ kind: uniform min: 100 max: 900 }", "{ kind: fixed value: 100 }");
  text = Replaced(text, "{ kind: uniform min: 2 max: 40 }", "{ kind: fixed value: 20 }");
  text = Replaced(Replaced(text, "[2, 8, 64]", "1"), "[128, 256, 512]", "512");
  text = Replaced(text, "until: \"mean_ttft_ms<=200 && mean_tpot_ms<=15\"", "");
  text += "objective: latency latency_metric: \"mean_ttft_ms\"";
  const std::optional<LengthCheck> idle = Answer(Request(text)).length_check;
  ASSERT_TRUE(idle);
  EXPECT_EQ(idle->requests, 320);
  EXPECT_NEAR(idle->change.value, 0, 0.01);  // delays outside of the engine are drawn
  EXPECT_TRUE(idle->settled);
  const std::optional<LengthCheck> overloaded =
      Answer(Request(Replaced(text, "constant rate: 1", "constant rate: 35"))).length_check;
  ASSERT_TRUE(overloaded);
  EXPECT_NEAR(overloaded->change.value, 1, 0.1);
  EXPECT_FALSE(overloaded->settled);
}

TEST(RecommendTest, TwoReplicasServeTwiceTheUsers) {
  std::string text = Replaced(kTiny, "kind: poisson rate: 20", "kind: closed_loop users: 8");
  text = Replaced(text, "{ name: \"h100-sxm\" }", "{ name: \"h100-sxm\" devices: 2 }");
  text = Replaced(text, "[2, 8, 64]", "[64]");
  text = Replaced(text, "[128, 256, 512]", "[512]") + "objective: users";
  text = Replaced(text, "settings {",
                  "settings { tensor_parallel: 1 pipeline_parallel: 1 replicas: [1, 2] "
                  "prefill_replicas: 0 ");
  const Recommendation answer = Answer(Request(text));
  ASSERT_EQ(answer.configurations.size(), 2u);
  EXPECT_EQ(answer.configurations[0].candidate.choice.layout.replicas, 2);
  EXPECT_EQ(answer.value_unit, "users");
  EXPECT_NEAR(answer.configurations[0].value.value, 2 * answer.configurations[1].value.value,
              0.05 * answer.configurations[0].value.value);
  EXPECT_EQ(answer.configurations[0].experiment.workload.arrivals.users, 8);
  EXPECT_EQ(answer.configurations[0].experiment.system.replicas, 2);
}

// The first token comes after 14 ms, 9 of them outside of the engine. One request at a time takes
// 20 steps of 5 ms, so that a replica serves 10 requests/s. Requests come every 1/35 s: with 4
// replicas each has 114 ms for one, with 3 replicas 86 ms.

TEST(RecommendTest, AFleetHasAsFewReplicasAsTheBoundsAllow) {
  const Recommendation answer = Answer(Request(FleetRequest(16)));
  ASSERT_FALSE(answer.configurations.empty());
  const RecommendedConfiguration& first = answer.configurations[0];
  EXPECT_EQ(first.candidate.choice.layout.replicas, 4);
  EXPECT_EQ(answer.value_unit, "devices");
  EXPECT_DOUBLE_EQ(first.value.value, 4);
  EXPECT_EQ(first.experiment.system.replicas, 4);
  ASSERT_EQ(answer.rejected.size(), 1u);
  EXPECT_EQ(answer.rejected[0].choice.layout.replicas, 3);
  EXPECT_THAT(answer.rejected[0].reason, HasSubstr("p99_ttft_ms<=20 does not hold at the load"));
}

TEST(RecommendTest, AFleetThatTheDevicesDoNotSufficeForIsRejected) {
  const Recommendation answer = Answer(Request(FleetRequest(3)));
  EXPECT_THAT(answer.configurations, IsEmpty());
  ASSERT_EQ(answer.rejected.size(), 1u);
  EXPECT_THAT(answer.rejected[0].reason,
              HasSubstr("p99_ttft_ms<=20 does not hold at the load with 3 replicas, the most"));
}

TEST(RecommendTest, KindsOfDevicesInAFleetNeedPrices) {
  const std::string text =
      Replaced(FleetRequest(4), "settings {", "hardware { name: \"l40s\" } settings {");
  EXPECT_THAT(ErrorOf(text), HasSubstr("hardware.price_per_hour: is missing for h100-sxm"));
}

TEST(RecommendTest, ReplicasThatPrefillServeTheWholeLoadWithThoseThatDecode) {
  std::string text = Replaced(kTiny, "{ name: \"h100-sxm\" }", "{ name: \"h100-sxm\" devices: 2 }");
  text = Replaced(text, "[2, 8, 64]", "[64]");
  text = Replaced(text, "[128, 256, 512]", "[512]");
  text = Replaced(text, "settings {",
                  "settings { tensor_parallel: 1 pipeline_parallel: 1 prefill_replicas: 1 ");
  const Recommendation answer = Answer(Request(text));
  ASSERT_EQ(answer.configurations.size(), 1u);
  const RecommendedConfiguration& only = answer.configurations[0];
  EXPECT_EQ(only.candidate.choice.layout.devices(), 2);
  EXPECT_EQ(only.experiment.workload.arrivals.rate, 20);
  EXPECT_EQ(only.experiment.system.disaggregation->pools.prefill_replicas, 1);
  EXPECT_EQ(only.experiment.system.disaggregation->pools.decode_replicas, 1);
  EXPECT_THAT(only.command, HasSubstr("--kv-transfer-config"));
}

TEST(RecommendTest, RequestsThatHaveNoAnswerAreRefusedWithOneLine) {
  EXPECT_THAT(ErrorOf(Replaced(kTiny, "llama-3-8b", "llama-3-9b")), HasSubstr("llama-3-8b"));
  EXPECT_THAT(
      ErrorOf(Replaced(kTiny, "token_budget:", "waiting_served_ratio: 1 token_budget:")),
      HasSubstr("settings.waiting_served_ratio: is no setting of vllm-0.33.0; allowed with: "
                "tgi-2.0.4"));
  EXPECT_THAT(ErrorOf(Replaced(kTiny, "vllm-0.33.0", "triton-2.50")), HasSubstr("unknown server"));
  EXPECT_THAT(ErrorOf(Replaced(kTiny, "mean_ttft_ms", "mean_tft_ms")), HasSubstr("mean_ttft_ms"));
  EXPECT_THAT(ErrorOf(Replaced(kTiny, "kind: poisson rate: 20", "kind: all_at_once")),
              HasSubstr("says no load"));
  EXPECT_THAT(ErrorOf(kTiny + std::string("objective: users")), HasSubstr("closed_loop"));
  EXPECT_THAT(ErrorOf(Replaced(kTiny, "kind: poisson rate: 20", "kind: closed_loop users: 2")),
              HasSubstr("a closed loop has none"));
  EXPECT_THAT(ErrorOf(Replaced(kTiny, "mean_ttft_ms<=200 && mean_tpot_ms<=15", "rejected<=0")),
              HasSubstr("holds at 4096 times the load"));
  EXPECT_THAT(ErrorOf(kTiny + std::string("max_model_len: 100000")), HasSubstr("8192"));
}

class StoppedControl final : public RunControl {
 public:
  [[nodiscard]] bool StopRequested() const override { return true; }
};

TEST(RecommendTest, ARequestToStopEndsTheSearch) {
  StoppedControl control;
  EXPECT_TRUE(Recommend(Request(kTiny), {.jobs = 2}, control).interrupted);
}

// Stops once some evaluations are there. Single runs report progress, too.
class StoppingControl final : public RunControl {
 public:
  void OnProgress(std::string_view what, std::uint64_t done, std::uint64_t /*total*/) override {
    stops_ = stops_ || (what.starts_with("recommend") && done >= 5);
  }
  [[nodiscard]] bool StopRequested() const override { return stops_; }

 private:
  std::atomic<bool> stops_ = false;
};

TEST(RecommendTest, ASearchThatWasStoppedGoesOnToTheSameAnswer) {
  const ScratchDirectory scratch("recommend_log");
  const RecommendConfig request = Request(kTiny);
  const RecommendOptions options{.jobs = 2, .log = LogIn(scratch.File("answer"))};
  StoppingControl stopping;
  ASSERT_TRUE(Recommend(request, options, stopping).interrupted);
  std::size_t kept = 0;
  {
    std::ifstream log(options.log);
    for (std::string line; std::getline(log, line);) ++kept;
    EXPECT_GT(kept, 5u);
  }
  std::ofstream(options.log, std::ios::app) << "{\"key\": \"cut";  // the process was killed
  RunControl control;
  const Recommendation answer = Recommend(request, options, control);
  EXPECT_EQ(RecommendationJson(answer, request), RecommendationJson(Answer(request), request));
  EXPECT_FALSE(std::filesystem::exists(scratch.File("answer")));
}

// The time is out once some runs of a length have ended.
class TimeOfRuns final : public RunControl {
 public:
  explicit TimeOfRuns(std::string last) : last_(std::move(last)) {}

  void OnProgress(std::string_view what, std::uint64_t /*done*/, std::uint64_t /*total*/) override {
    out_ = out_ || what == last_;
  }
  [[nodiscard]] Recommendation Answer(const RecommendConfig& request) {
    return Recommend(request, {.jobs = 2, .out_of_time = [this] { return out_.load(); }}, *this);
  }

 private:
  std::string last_;
  std::atomic<bool> out_ = false;
};

constexpr const char* kAfterRanking[] = {"the first again, on other seeds",
                                         "runs of twice the length", "what each setting changes"};

// Full runs have 160 requests, and the rungs before them 100.
TEST(RecommendTest, AShortTimeLeavesTheRankingOfShorterRuns) {
  const RecommendConfig request = Request(kTiny);
  const Recommendation answer = TimeOfRuns("recommend: runs of 160 requests").Answer(request);
  EXPECT_FALSE(answer.interrupted);
  ASSERT_GE(answer.configurations.size(), 4u);
  EXPECT_GT(answer.configurations[0].value.value, answer.configurations[3].value.value);
  EXPECT_FALSE(answer.first_again);
  EXPECT_EQ(answer.left_out.size(), 5u);
  EXPECT_THAT(answer.left_out[0], StartsWith("runs of 160 requests of "));
  EXPECT_EQ(answer.left_out[1],
            "runs of 160 requests: the values below are of runs of 100 requests");
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(answer.left_out.at(i + 2), kAfterRanking[i]);
}

TEST(RecommendTest, WithTimeForTheRankingItIsThatOfACompleteSearch) {
  const RecommendConfig request = Request(kTiny);
  const Recommendation complete = Answer(request);
  EXPECT_THAT(complete.left_out, IsEmpty());
  const Recommendation answer = TimeOfRuns("recommend: runs of 320 requests").Answer(request);
  EXPECT_THAT(answer.left_out, ElementsAre(kAfterRanking[1], kAfterRanking[2]));
  ASSERT_EQ(answer.configurations.size(), complete.configurations.size());
  for (std::size_t i = 0; i < complete.configurations.size(); ++i) {
    EXPECT_EQ(answer.configurations[i].candidate.choice,
              complete.configurations[i].candidate.choice);
    EXPECT_EQ(answer.configurations[i].value.value, complete.configurations[i].value.value);
  }
  EXPECT_EQ(answer.first_again->value, complete.first_again->value);
  EXPECT_FALSE(answer.length_check);
  EXPECT_THAT(answer.sensitivity, IsEmpty());
  EXPECT_EQ(answer.pareto.size(), complete.pareto.size());
}

TEST(RecommendTest, WithoutTimeNothingIsCompared) {
  RunControl control;
  const Recommendation answer =
      Recommend(Request(kTiny), {.jobs = 2, .out_of_time = [] { return true; }}, control);
  EXPECT_FALSE(answer.interrupted);
  EXPECT_THAT(answer.configurations, IsEmpty());
  EXPECT_THAT(answer.left_out, ElementsAre("the comparison of configurations"));
  StoppedControl stopped;
  EXPECT_TRUE(Recommend(Request(kTiny), {.jobs = 2, .out_of_time = [] { return true; }}, stopped)
                  .interrupted);
}

// Weights in fp8 take half the time of a step that decodes, so that all nine configurations with
// them are better than the best one in bf16.
TEST(RecommendTest, TheBestOfEitherKindOfWeightsIsKept) {
  std::string text = Replaced(kTiny, "weight_dtype: \"bf16\"", "weight_dtype: [\"bf16\", \"fp8\"]");
  text = Replaced(text, "\"cost.linear.base_s=0.005\"", "\"cost.roofline.host_s=0\"");
  text = Replaced(text, "\"cost.linear.per_prefill_token_s=1e-5\", ", "");
  text = Replaced(text, "\"cost.linear.per_decode_item_s=1e-5\"", "\"system.boundary={}\"");
  text = Replaced(text, "[2, 8, 64]", "[32, 64, 128]");
  const Recommendation answer = Answer(Request(text));
  ASSERT_FALSE(answer.configurations.empty());
  EXPECT_TRUE(answer.configurations[0].candidate.quantised);
  const std::size_t own = FirstWithOwnWeights(answer);
  ASSERT_GE(own, 4u);
  EXPECT_FALSE(answer.configurations[own].candidate.quantised);
  EXPECT_EQ(answer.configurations[own].candidate.choice.weight_dtype, DType::kBf16);
}

TEST(RecommendTest, TheLogOfAnotherSearchIsRefused) {
  const ScratchDirectory scratch("recommend_other_log");
  const RecommendOptions options{.jobs = 2, .log = LogIn(scratch.File("answer"))};
  StoppingControl stopping;
  ASSERT_TRUE(Recommend(Request(kTiny), options, stopping).interrupted);
  RunControl control;
  const RecommendConfig other = Request(Replaced(kTiny, "rate: 20", "rate: 21"));
  EXPECT_THAT([&] { (void)Recommend(other, options, control); },
              ::testing::ThrowsMessage<InputError>(HasSubstr("is of another request")));
  EXPECT_TRUE(std::filesystem::exists(options.log));
}

}  // namespace
}  // namespace twin::run
