// Timers of cost models give the times of their models, whatever steps came before.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "config/models/model_names.h"
#include "core/random.h"
#include "sim/cost/draft_cost.h"
#include "sim/cost/linear_cost.h"
#include "sim/cost/roofline_cost.h"
#include "sim/devices/profile_cost.h"
#include "tests/unit/sim/test_hardware.h"

namespace twin::sim {
namespace {

constexpr std::int64_t kBlockBytes = 1 << 20;
constexpr int kSteps = 3000;

// Plans that differ from the one before in nothing, in the context of the decodes, or in one of the
// other totals or all.
class WanderingPlans {
 public:
  explicit WanderingPlans(std::uint64_t seed) : random_(seed, "plans") {}

  const StepPlan& Next() {
    StepTotals& totals = plan_.totals;
    plan_.resumed.clear();
    plan_.kv.clear();
    switch (random_.UniformInt(0, 9)) {
      case 0:
        totals.decode_items = random_.UniformInt(0, 300);
        totals.emitting_items = random_.UniformInt(0, totals.decode_items);
        break;
      case 1:
        DrawChunks();
        break;
      case 2:
        totals.padding_tokens = random_.UniformInt(0, 3);
        totals.draft_tokens = random_.UniformInt(0, 5);
        break;
      case 3:
        plan_.resumed.push_back(RequestId{1});
        plan_.kv.push_back({.kind = KvOperation::Kind::kSwapIn});
        break;
      case 4:
        return plan_;
      default:
        break;
    }
    DrawContext();
    plan_.running = static_cast<std::int32_t>(totals.decode_items);
    return plan_;
  }

 private:
  void DrawChunks() {
    StepTotals& totals = plan_.totals;
    totals.prefill_items = random_.UniformInt(0, 3);
    totals.prefill_tokens = totals.prefill_items * random_.UniformInt(1, 700);
    totals.prefill_context_tokens = 2 * totals.prefill_tokens;
    totals.prefill_context_max = totals.prefill_context_tokens;
    totals.prefill_attention_pairs = totals.prefill_tokens * random_.UniformInt(1, 700);
  }
  void DrawContext() {
    StepTotals& totals = plan_.totals;
    if (totals.tokens() == 0) totals.decode_items = 1;
    const std::int64_t mean = random_.UniformInt(1, 9000);
    totals.decode_context_tokens = totals.decode_items * mean;
    totals.decode_context_max = totals.decode_items == 0 ? 0 : mean + random_.UniformInt(0, 9000);
  }

  Random random_;
  StepPlan plan_;
};

void ExpectTimesOfTheModel(const StepCost& cost, std::uint64_t seed) {
  const std::unique_ptr<StepTimer> timer = cost.Timer();
  WanderingPlans plans(seed);
  std::vector<Duration> times(static_cast<std::size_t>(cost.stages()));
  std::vector<Duration> expected(times.size());
  std::vector<DeviceState> devices(times.size());
  TimePoint now = kTimeZero;
  for (int step = 0; step < kSteps; ++step) {
    const StepPlan& plan = plans.Next();
    cost.DeviceTimes(plan, expected);
    timer->DeviceTimes(plan, times);
    ASSERT_EQ(times, expected) << step;
    for (int stage = 0; stage < cost.stages(); ++stage) {
      DeviceState& device = devices[static_cast<std::size_t>(stage)];
      const Duration time = timer->StageTime(plan, stage, now, device);
      ASSERT_EQ(time, cost.StageTime(plan, stage, now, device)) << step;
      cost.Advance(plan, now, now + time, device);
      now += time;
    }
    if (step % 7 == 0) now += std::chrono::milliseconds(30);
  }
}

RooflineCost Roofline(const char* model, const Parallelism& parallelism,
                      const RooflineCostConfig& config = {}) {
  return {config, ModelPreset(model), IdealHardware(), parallelism, kBlockBytes};
}

ProfileCost Profile(const char* model, const Parallelism& parallelism,
                    const ProfileCostConfig& config = {}) {
  return {config, ModelPreset(model), IdealHardware(), parallelism, kBlockBytes};
}

TEST(StepTimerTest, RooflineTimesAreThoseOfTheModel) {
  ExpectTimesOfTheModel(Roofline("llama-3-8b", {}), 1);
  ExpectTimesOfTheModel(Roofline("llama-3-8b", {.tensor = 2, .pipeline = 2}), 2);
  ExpectTimesOfTheModel(Roofline("mixtral-8x7b", {}, {.gemm_tile_tokens = 16}), 3);
  ExpectTimesOfTheModel(Roofline("llama-3-8b", {}, {.overlaps_attention = true}), 4);
}

TEST(StepTimerTest, ProfileTimesAreThoseOfTheModel) {
  ExpectTimesOfTheModel(Profile("llama-3-8b", {}), 5);
  ExpectTimesOfTheModel(Profile("llama-3-8b", {.tensor = 2, .pipeline = 2}), 6);
  ExpectTimesOfTheModel(Profile("mixtral-8x7b", {}), 7);
  ProfileCostConfig drawn;
  drawn.draw_seed = 3;
  ExpectTimesOfTheModel(Profile("llama-3-8b", {}, drawn), 8);
}

TEST(StepTimerTest, DraftTimesAreThoseOfTheModel) {
  const auto target = std::make_shared<RooflineCost>(Roofline("llama-3-8b", {.pipeline = 2}));
  const auto draft = std::make_shared<ProfileCost>(Profile("llama-3-8b", {}));
  ExpectTimesOfTheModel(DraftCost(target, {.model = draft, .drafts = 3}), 9);
}

TEST(StepTimerTest, OtherModelsAreAskedAnew) {
  ExpectTimesOfTheModel(LinearCost({.base_s = 1e-3, .per_decode_context_token_s = 1e-9}, 2), 10);
}

}  // namespace
}  // namespace twin::sim
