// Lower bounds on latencies: values by hand, and no policy below them.
#include "run/bounds/gap_to_bound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/input_error.h"
#include "core/random.h"
#include "run/bounds/latency_floor.h"
#include "run/bounds/work_floor.h"
#include "sim/cost/constant_cost.h"
#include "sim/cost/linear_cost.h"
#include "tests/support/hostile_policies.h"

namespace twin::run {
namespace {

using ::testing::HasSubstr;
using testing::PolicyMode;

// Blocks of 16 tokens.
constexpr const char* kExperiment =
    "workload { requests: 40 arrivals { kind: poisson rate: 40 } shape { "
    "prompt { kind: uniform min: 4 max: 60 } output { kind: uniform min: 1 max: 30 } "
    "shared_prefix { prompts: 2 tokens: 16 } } prediction { kind: oracle } } "
    "system { hardware: 'cpu-generic' model_shape { layers: 2 hidden: 32 intermediate: 48 "
    "query_heads: 4 kv_heads: 2 head_dim: 8 vocab: 101 max_position: 2048 weight_dtype: fp32 "
    "kv_dtype: bf16 } memory { blocks_override: 24 } } cost { constant { step_s: 0.01 } } "
    "policy { vllm_v1 { max_model_len: 128 } }";
constexpr const char* kCosts[] = {
    "cost=linear { base_s: 0.005 per_prefill_token_s: 1e-4 per_decode_item_s: 2e-4 "
    "per_decode_context_token_s: 1e-5 per_attention_pair_s: 1e-7 host_s: 1e-3 }",
    "cost=constant { step_s: 0.01 }", "cost=roofline { host_s: 1e-5 gemm_tile_tokens: 8 }"};

ExperimentConfig Read(const std::vector<std::string>& changes) {
  ExperimentTemplate experiment = ExperimentTemplate::FromText(kExperiment, "test");
  experiment.Change(changes, "/");
  return experiment.With({}, {});
}

GapToBound GapOf(const ExperimentConfig& config) {
  RunControl control;
  WorkFloors floors;
  return MeasureGapToBound(Resolve(config), control, floors);
}

void ExpectBelow(const GapToBound& gap, const std::string& where) {
  constexpr double kRounding = 1 + 1e-6;
  EXPECT_LE(gap.floor.mean_ttft_s, gap.reached.mean_ttft_s * kRounding) << where;
  EXPECT_LE(gap.floor.mean_e2el_s, gap.reached.mean_e2el_s * kRounding) << where;
  EXPECT_LE(gap.floor.makespan_s, gap.reached.makespan_s * kRounding) << where;
  EXPECT_EQ(gap.floor.mean_ttft_s > 0, gap.requests > 0) << where;
}

class OptimumTest : public ::testing::TestWithParam<PolicyMode> {};

TEST_P(OptimumTest, NoPolicyIsBelowTheBounds) {
  Random random(1, GetParam().name);
  int runs = 0;
  for (const char* cost : kCosts) {
    for (const char* load : {"workload.arrivals.rate=4", "workload.arrivals.rate=400"}) {
      ExperimentConfig config = Read({cost, load});
      config.policy = GetParam().draw(random, 24 * 16).config;
      try {
        ExpectBelow(GapOf(config), cost);
        ++runs;
      } catch (const InputError&) {  // too few host blocks to swap to
      }
    }
  }
  EXPECT_GE(runs, 4);
}

// Without those that the bounds leave out: drafts, several copies of a model, stages, host blocks;
// and those that need a model with windows.
std::vector<PolicyMode> BoundedModes() {
  std::vector<PolicyMode> modes = testing::PolicyModes();
  std::erase_if(modes, [](const PolicyMode& mode) {
    for (const std::string_view word : {"speculative", "copies", "pipeline", "swap", "fastserve",
                                        "distserve", "sglang_windows"}) {
      if (mode.name.find(word) != std::string::npos) return true;
    }
    return false;
  });
  return modes;
}

INSTANTIATE_TEST_SUITE_P(AllPolicies, OptimumTest, ::testing::ValuesIn(BoundedModes()),
                         [](const auto& mode) { return mode.param.name; });

// The job of 1 that comes at 1 goes first: it ends at 2, and the other one at 4.
TEST(LeastTotalFlowTest, TheShortestRestGoesFirst) {
  const Job jobs[] = {{0, 3}, {1, 1}};
  EXPECT_DOUBLE_EQ(LeastTotalFlow(jobs), 4 + 1);
  EXPECT_DOUBLE_EQ(LeastEnd(jobs), 4);
  // A rest of 1 is not overtaken by a 2. The server idles from 5 to 7.
  const Job late[] = {{0, 3}, {2, 2}, {7, 1}};
  EXPECT_DOUBLE_EQ(LeastTotalFlow(late), 3 + 3 + 1);
  EXPECT_DOUBLE_EQ(LeastEnd(late), 8);
}

RequestWork Work(std::int32_t prompt, std::int32_t output, std::int32_t shared = 0) {
  return {.arrival = kTimeZero,
          .prompt_tokens = prompt,
          .output_tokens = output,
          .shared_tokens = shared};
}

// Steps of 10 ms: three of them for three tokens.
TEST(LatencyFloorTest, ARequestAloneTakesItsOwnSteps) {
  const sim::ConstantCost cost({.host_time = Duration{0}}, 1);
  WorkFloor floor(cost, 1000);
  const RequestWork requests[] = {Work(100, 3)};
  const LatencyFloor bound = FloorOf(requests, floor);
  EXPECT_NEAR(bound.mean_ttft_s, 0.010, 1e-6);
  EXPECT_NEAR(bound.mean_e2el_s, 0.030, 1e-6);
  EXPECT_NEAR(bound.makespan_s, 0.030, 1e-6);
}

// A millisecond per token of a prompt and nothing else: 10 and 30 tokens end at 10 and 40 ms, if
// the short one goes first. The chunks of a real policy can do just that.
TEST(LatencyFloorTest, PromptsAreServedShortestFirst) {
  const sim::LinearCost cost({.per_prefill_token_s = 1e-3, .per_decode_item_s = 1e-3}, 1);
  WorkFloor floor(cost, 40);
  const RequestWork requests[] = {Work(30, 1), Work(10, 1)};
  const LatencyFloor bound = FloorOf(requests, floor);
  EXPECT_NEAR(bound.mean_ttft_s, 0.025, 0.025 * 0.02);
  EXPECT_NEAR(bound.mean_e2el_s, 0.025, 0.025 * 0.02);
  EXPECT_NEAR(bound.makespan_s, 0.040, 0.040 * 0.02);
  // With 20 of the 30 tokens cached: 10 ms and 20 ms.
  const RequestWork cached[] = {Work(30, 1, 20), Work(10, 1)};
  EXPECT_NEAR(FloorOf(cached, floor).mean_ttft_s, 0.015, 0.015 * 0.02);
}

// A step takes 16 ms whatever it holds, and the cache holds 16 tokens: three prompts of 16 tokens
// take three steps, though each of them alone takes one.
TEST(LatencyFloorTest, MemoryKeepsStepsApart) {
  const sim::ConstantCost cost(
      {.host_time = Duration{0}, .step_time = std::chrono::milliseconds(16)}, 1);
  WorkFloor floor(cost, 16);
  const RequestWork requests[] = {Work(16, 1), Work(16, 1), Work(16, 1)};
  const LatencyFloor bound = FloorOf(requests, floor);
  EXPECT_NEAR(bound.makespan_s, 0.048, 1e-4);
  EXPECT_NEAR(bound.mean_ttft_s, (0.016 + 0.032 + 0.048) / 3, 1e-4);
}

// Steps that a policy can plan with 24 blocks: some requests that decode, others in chunks.
TEST(WorkFloorTest, NoStepIsCheaperThanItsRates) {
  constexpr std::int64_t kCache = 24 * 16;
  for (const char* text : kCosts) {
    const Deployment deployment = Resolve(Read({text}));
    const WorkFloor floor(*deployment.cost, kCache);
    Random random(1, text);
    for (int draw = 0; draw < 3000; ++draw) {
      StepPlan plan;
      StepTotals& totals = plan.totals;
      std::int64_t contexts = 0;
      std::int64_t tokens = 0;
      for (std::int64_t room = random.UniformInt(1, kCache); room > 0;) {
        const std::int64_t end = random.UniformInt(1, room);
        const std::int64_t chunk = random.UnitReal() < 0.5 ? 1 : random.UniformInt(1, end);
        const bool emits = random.UnitReal() < 0.8;
        room -= end;
        tokens += chunk;
        contexts += emits ? end : 0;
        totals.emitting_items += emits ? 1 : 0;
        if (chunk == 1 && emits && random.UnitReal() < 0.7) {
          ++totals.decode_items;
          totals.decode_context_tokens += end;
        } else {
          ++totals.prefill_items;
          totals.prefill_tokens += chunk;
          totals.prefill_context_tokens += end;
          totals.prefill_attention_pairs += chunk * (end - chunk) + chunk * (chunk + 1) / 2;
        }
      }
      Duration time{0};
      deployment.cost->DeviceTimes(plan, {&time, 1});
      for (const WorkRate& rate : floor.rates()) {
        ASSERT_GE(Seconds(time) * (1 + 1e-9), rate.token_s * static_cast<double>(tokens) +
                                                  rate.context_s * static_cast<double>(contexts))
            << text << ", draw " << draw;
      }
    }
  }
}

// What the proof asks of the cost models: a prompt in one chunk costs no more than in two.
TEST(WorkFloorTest, ChunksCostAtLeastWhatTheWholePromptDoes) {
  for (const char* text : kCosts) {
    const Deployment deployment = Resolve(Read({text}));
    const auto seconds = [&](std::int64_t start, std::int64_t tokens) {
      StepPlan plan;
      plan.totals.prefill_tokens = tokens;
      plan.totals.prefill_items = plan.totals.emitting_items = 1;
      plan.totals.prefill_context_tokens = start + tokens;
      plan.totals.prefill_attention_pairs = tokens * start + tokens * (tokens + 1) / 2;
      Duration time{0};
      deployment.cost->DeviceTimes(plan, {&time, 1});
      return Seconds(time);
    };
    for (std::int64_t whole = 2; whole <= 400; whole += 7) {
      for (std::int64_t cut = 1; cut < whole; cut += 5) {
        EXPECT_LE(seconds(0, whole), seconds(0, cut) + seconds(cut, whole - cut) + 2e-9) << text;
      }
    }
  }
}

void ExpectRefusal(const std::vector<std::string>& changes, const std::string& what) {
  try {
    GapOf(Read(changes));
    ADD_FAILURE() << "not refused: " << what;
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr(what));
  }
}

TEST(GapToBoundTest, RefusesWhatHasNoProof) {
  ExpectRefusal({"system.replicas=2"}, "system.replicas");
  ExpectRefusal(
      {kCosts[2], "system.model_shape.sliding_window=16", "system.model_shape.windowed_layers=1"},
      "sliding windows");
}

// One request at a time, each of one chunk: nothing can be faster. Arrivals are far apart.
TEST(GapToBoundTest, ALoneRequestIsServedAtTheBound) {
  const GapToBound gap = GapOf(Read({"workload.arrivals.rate=0.001"}));
  EXPECT_EQ(gap.requests, 40);
  EXPECT_NEAR(gap.reached.mean_ttft_s, gap.floor.mean_ttft_s, 1e-6);
  EXPECT_NEAR(gap.reached.mean_e2el_s, gap.floor.mean_e2el_s, 1e-6);
}

}  // namespace
}  // namespace twin::run
