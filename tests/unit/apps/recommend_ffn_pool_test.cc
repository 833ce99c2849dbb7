// Recommendations for replicas whose feed-forward networks have devices of their own: attention
// groups, pool and micro-batches.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "apps/recommend/candidate.h"
#include "apps/recommend/recommendation.h"
#include "core/input_error.h"
#include "sim/cost/ffn_pool_optimum.h"

namespace twin::run {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// Devices whose times are known by hand. mixtral-8x7b has 32 layers, 8 experts of 3 x 4,096 x
// 14,336 numbers, two for each token, and keys and values of 4,096 bytes a token and layer;
// attention's weights are 83.9 MB a layer. Each of 8 devices of the pool has an expert and computes
// as fast as its peak allows, and a launch of each of its three products takes `pool_latency_us`.
// Attention reads its weights at 8.39 TB/s (10 us a layer), and the cache slower by `fraction`.
struct Sheets {
  double peak_tflops = 35.23;  // 10 us for a row of an expert
  double pool_latency_us = 0;
  double fraction = 0.0037;  // 13.7 us for a request of 104 tokens
  double pool_price = 1;
};

constexpr double kContext = 8 + 192 / 2;  // tokens that a request holds, mean
constexpr double kRequests = 16;          // of an attention group, in two micro-batches

std::string RequestText(const Sheets& sheets, const std::string& more = "") {
  return fmt::format(
             R"(
model {{ name: "mixtral-8x7b" }}
hardware {{ name: "h100-sxm" devices: 40 price_per_hour: 1
            ffn {{ name: "b200" devices: 8 price_per_hour: {} }} }}
workload {{ arrivals {{ kind: constant rate: 20 }}
           shape {{ prompt {{ kind: fixed value: 8 }} output {{ kind: fixed value: 192 }} }} }}
until: "mean_ttft_ms<=100"
objective: cost
settings {{ server: "vllm-0.33.0" tensor_parallel: 1 token_budget: 2048 max_num_seqs: 1024
           gpu_memory_utilization: 0.9 weight_dtype: "bf16" ffn_devices: 8 micro_batches: 2 }}
requests: 2000 replications: 3
set: ["cost.roofline.host_s=0", "system.memory.kv_bytes_override={:.0f}",
      "system.hardware_spec.memory_bandwidth_bytes_per_s=8.39e12",
      "system.hardware_spec.peak_bf16_flops=1e18", "system.hardware_spec.gemm_flops_fraction=1",
      "system.hardware_spec.gemm_bandwidth_fraction=1", "system.hardware_spec.gemm_latency_s=0",
      "system.hardware_spec.attention_flops_fraction=1",
      "system.hardware_spec.attention_bandwidth_fraction={}",
      "system.hardware_spec.attention_latency_s=0",
      "system.hardware_spec.attention_per_request_s=0",
      "system.hardware_spec.elementwise_latency_s=0",
      "system.hardware_spec.elementwise_bandwidth_fraction=1",
      "system.ffn.hardware_spec.peak_bf16_flops={}e12",
      "system.ffn.hardware_spec.memory_bandwidth_bytes_per_s=1e18",
      "system.ffn.hardware_spec.gemm_flops_fraction=1",
      "system.ffn.hardware_spec.gemm_latency_s={}e-6",
      "system.ffn.hardware_spec.elementwise_latency_s=0",
      "system.ffn.link.bandwidth_gbps=1e6", "system.ffn.link.latency_us=0"]
)",
             sheets.pool_price, kRequests * kContext * 32 * 4096, sheets.fraction,
             sheets.peak_tflops, sheets.pool_latency_us) +
         more;
}

// Converts the devices to the terms of the closed form.
sim::FfnPoolTerms PoolOf(const Sheets& sheets) {
  return {.attention_token_s = kContext * 4096 / (8.39e12 * sheets.fraction),
          .attention_s = 4096.0 * (2 * 4096 + 2 * 1024) * 2 / 8.39e12,
          .ffn_row_s = 6.0 * 4096 * 14336 / (sheets.peak_tflops * 1e12),
          .ffn_s = 3 * sheets.pool_latency_us * 1e-6,
          .link_s = 0,
          .tokens = kRequests / 2,
          .experts = 8,
          .experts_per_token = 2,
          .attention_cost = 1,
          .ffn_cost = sheets.pool_price};
}

RecommendConfig Request(const std::string& text) {
  return ParseRecommendation(text, "request", ".");
}

Recommendation Answer(const RecommendConfig& request) {
  RunControl control;
  return Recommend(request, {.jobs = 2}, control);
}

std::vector<Layout> LayoutsOf(const RecommendConfig& request) {
  return CandidateSpace(request).LayoutsFor(
      {.server = "vllm-0.33.0", .weight_dtype = DType::kBf16});
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string ErrorOf(const std::string& text) {
  try {
    (void)Answer(Request(text));
  } catch (const InputError& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "";
}

// Attention takes 8 x 13.7 + 10 = 120 us, a group adds 20 us to the pool: six groups balance it. A
// faster cache, slower products, constant times and a dear pool move the optimum.
TEST(RecommendFfnPoolTest, LayoutsAreWithinOneOfTheOptimum) {
  int missed_by_balance = 0;
  for (const Sheets& sheets : std::vector<Sheets>{{},
                                                  {.fraction = 0.0018},
                                                  {.fraction = 0.009},
                                                  {.peak_tflops = 70},
                                                  {.peak_tflops = 17, .fraction = 0.0018},
                                                  {.pool_latency_us = 20},
                                                  {.pool_latency_us = 20, .pool_price = 4},
                                                  {.pool_latency_us = 60, .pool_price = 8},
                                                  {.pool_latency_us = 40, .fraction = 0.02}}) {
    const sim::FfnPoolTerms pool = PoolOf(sheets);
    const double best = sim::BestAttentionDevices(pool);
    const std::vector<Layout> layouts = LayoutsOf(Request(RequestText(sheets)));
    const double found = layouts.front().ffn->attention_groups;
    EXPECT_LE(std::abs(found - best), 1) << found << " instead of " << best;
    const double balance =
        pool.attention_token_s * pool.experts / (pool.ffn_row_s * pool.experts_per_token);
    missed_by_balance += std::abs(found - balance) > 1 ? 1 : 0;
    // Its neighbours are simulated, too.
    std::vector<int> tried;
    for (const Layout& layout : layouts) tried.push_back(layout.ffn->attention_groups);
    EXPECT_THAT(tried, Contains(found + 1));
  }
  EXPECT_GT(missed_by_balance, 2);
}

TEST(RecommendFfnPoolTest, TheAnswerIsWithinOneOfTheOptimum) {
  for (const Sheets& sheets :
       std::vector<Sheets>{{}, {.pool_latency_us = 20, .pool_price = 4}, {.fraction = 0.009}}) {
    const RecommendConfig request = Request(RequestText(sheets));
    const Recommendation answer = Answer(request);
    ASSERT_FALSE(answer.configurations.empty());
    const RecommendedConfiguration& first = answer.configurations[0];
    const FfnPoolSplit& split = *first.candidate.choice.layout.ffn;
    const double best = sim::BestAttentionDevices(PoolOf(sheets));
    EXPECT_LE(std::abs(split.attention_groups - best), 1)
        << split.attention_groups << " instead of " << best;
    // Throughput per cost of the closed form, tokens/s and $/h: 1,000 requests of 192 tokens. Steps
    // that take in prompts are not in it.
    const double per_cost =
        sim::ThroughputPerCost(PoolOf(sheets), split.attention_groups) / (32 * 2) * 2;
    EXPECT_NEAR(first.value.value, 192'000 / (3600 * per_cost), 0.15 * first.value.value);
    EXPECT_EQ(first.experiment.system.ffn->attention_groups, split.attention_groups);
    EXPECT_EQ(first.candidate.price_per_hour, split.attention_groups + 8 * sheets.pool_price);
    EXPECT_EQ(first.command, "");
  }
}

// Without micro-batches both sides wait for each other; with two, the slower side is always busy.
TEST(RecommendFfnPoolTest, MicroBatchesFillThePipe) {
  const RecommendConfig request =
      Request(Replaced(RequestText({}), "micro_batches: 2", "micro_batches: [1, 2]"));
  const std::vector<Layout> layouts = LayoutsOf(request);
  EXPECT_EQ(layouts.front().ffn->micro_batches, 2);
  const bool tries_both = std::ranges::any_of(
      layouts, [](const Layout& layout) { return layout.ffn->micro_batches == 1; });
  EXPECT_TRUE(tries_both);
}

// 90.2 GB of experts fit on four devices of 30 GB, not on two; devices that divide the experts can
// be a pool.
TEST(RecommendFfnPoolTest, PoolsThatCannotHoldTheModelAreLeftOut) {
  const std::string text = Replaced(RequestText({}), "ffn_devices: 8", "");
  const std::vector<Layout> layouts =
      LayoutsOf(Request(Replaced(text, "\"system.ffn.link.latency_us=0\"",
                                 "\"system.ffn.link.latency_us=0\", "
                                 "\"system.ffn.hardware_spec.memory_bytes=30000000000\"")));
  std::set<std::int32_t> devices;
  for (const Layout& layout : layouts) devices.insert(layout.ffn->devices);
  EXPECT_THAT(devices, ::testing::IsSubsetOf({4, 8}));
  EXPECT_THAT(devices, ::testing::Contains(4));
}

TEST(RecommendFfnPoolTest, DevicesCanBeSharedByBothSides) {
  std::string text = Replaced(RequestText({}), "devices: 40", "devices: 14");
  text = Replaced(text, "ffn { name: \"b200\" devices: 8 price_per_hour: 1 }", "ffn {}");
  const RecommendConfig request = Request(text);
  for (const Layout& layout : LayoutsOf(request)) {
    EXPECT_LE(layout.devices(), 14);
    EXPECT_EQ(layout.pool_devices(), 8);
    EXPECT_EQ(layout.replicas, 1);
  }
}

// With 40 devices for attention and 16 for pools of 8, two replicas have 20 groups each.
TEST(RecommendFfnPoolTest, GoodputFillsTheDevices) {
  std::string text = Replaced(RequestText({}), "devices: 8 price", "devices: 16 price");
  text = Replaced(text, "objective: cost", "objective: goodput");
  const Layout layout = LayoutsOf(Request(text)).front();
  EXPECT_EQ(layout.replicas, 2);
  EXPECT_EQ(layout.devices(), 40 + 16);
}

TEST(RecommendFfnPoolTest, ParametersNameBothSides) {
  const RecommendConfig request = Request(RequestText({}));
  const CandidateSettings choice{
      .server = "vllm-0.33.0",
      .layout = {.replicas = 2,
                 .ffn = FfnPoolSplit{.attention_groups = 6, .devices = 8, .micro_batches = 3}}};
  const std::vector<Parameter> parameters = ParametersOf(request, choice);
  EXPECT_THAT(parameters, Contains(Parameter("devices", std::int64_t{28})));
  EXPECT_THAT(parameters, Contains(Parameter("ffn_hardware", std::string("b200"))));
  EXPECT_THAT(parameters, Contains(Parameter("attention_groups", std::int64_t{6})));
  EXPECT_THAT(parameters, Contains(Parameter("ffn_devices", std::int64_t{8})));
  EXPECT_THAT(parameters, Contains(Parameter("micro_batches", std::int64_t{3})));
}

TEST(RecommendFfnPoolTest, EachMistakeIsOneLine) {
  const std::string text = RequestText({});
  EXPECT_THAT(ErrorOf(Replaced(text, "ffn { name: \"b200\" devices: 8 price_per_hour: 1 }", "")),
              HasSubstr("settings.ffn_devices: is of a pool for feed-forward networks; allowed "
                        "with: hardware { ffn {} }"));
  EXPECT_THAT(ErrorOf(Replaced(text, "name: \"b200\" devices", "devices")),
              HasSubstr("hardware.ffn: has devices or a price without a name"));
  EXPECT_THAT(ErrorOf(Replaced(text, "devices: 8 price_per_hour: 1", "devices: 8")),
              HasSubstr("hardware.ffn.price_per_hour: is missing for b200; the objective cost"));
  EXPECT_THAT(ErrorOf(Replaced(text, "tensor_parallel: 1", "pipeline_parallel: 2")),
              HasSubstr("settings.pipeline_parallel: is not 1; allowed with hardware.ffn: 1"));
  EXPECT_THAT(ErrorOf(Replaced(text, "tensor_parallel: 1", "prefill_replicas: 1")),
              HasSubstr("settings.prefill_replicas: is not 0; allowed with hardware.ffn: 0"));
  EXPECT_THAT(ErrorOf(Replaced(text, "tensor_parallel: 1", "attention_groups: 41")),
              HasSubstr("hardware.ffn: 40 devices and 8 of the pool hold no replica"));
  const std::string goodput = Replaced(text, "objective: cost", "objective: goodput");
  EXPECT_THAT(ErrorOf(Replaced(goodput, "ffn_devices: 8", "ffn_devices: 16")),
              HasSubstr("hold no replica"));
  EXPECT_THAT(ErrorOf(Replaced(text, "micro_batches: 2", "micro_batches: 0")),
              HasSubstr("settings.micro_batches"));
  EXPECT_THAT(ErrorOf(Replaced(text, "hardware {",
                               "hardware { name: \"h200-sxm\" "
                               "price_per_hour: 1 } hardware {")),
              HasSubstr("set: has system.ffn, but hardware h200-sxm has no pool"));
}

// Three devices do not divide eight experts: the reason is listed.
TEST(RecommendFfnPoolTest, PoolsThatCannotRunAreRejectedWithTheReason) {
  const Recommendation answer =
      Answer(Request(Replaced(RequestText({}), "ffn_devices: 8", "ffn_devices: 3")));
  EXPECT_TRUE(answer.configurations.empty());
  ASSERT_FALSE(answer.rejected.empty());
  EXPECT_THAT(answer.rejected[0].reason, HasSubstr("a divisor of the 8 experts"));
}

}  // namespace
}  // namespace twin::run
