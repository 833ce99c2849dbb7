#include "run/record/fairness_meter.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "run/record/request_tracker.h"
#include "tests/support/scripted_run.h"

namespace twin {
namespace {

using testing::At;
using testing::Decode;
using testing::Last;
using testing::Prefill;
using testing::R;

class FairnessMeterTest : public ::testing::Test {
 protected:
  void Step(double from, double to, std::vector<RequestId> admitted, std::vector<WorkItem> work,
            std::vector<ItemOutcome> outcomes = {}) {
    StepPlan plan;
    plan.admitted = std::move(admitted);
    plan.work = std::move(work);
    script_.Finish(At(to), script_.Launch(At(from), std::move(plan)), std::move(outcomes));
  }

  FairnessMeter meter_{FairnessConfig{}};
  RequestTracker tracker_{{}, std::array<RunListener*, 1>{&meter_}};
  testing::ScriptedRun script_{&tracker_};
};

TEST_F(FairnessMeterTest, TakesTheLargestDifferenceWhileBothTenantsWait) {
  // Tenants 0 and 1 both keep a request waiting from 0 to 30 ms. Request 0 (tenant 0) is served
  // 10 prompt tokens and a token: 12. Then request 1 (tenant 1) 4 and a token: 6. Differences: 12,
  // then 6. At 30 tenant 1's last waiting request is admitted: what follows does not count.
  script_.Arrive(At(0), R(0), 10, 0);
  script_.Arrive(At(0), R(1), 4, 1);
  script_.Arrive(At(0), R(2), 4, 0);
  script_.Arrive(At(0), R(3), 100, 1);
  Step(0, 10, {R(0)}, {Prefill(R(0), 0, 10)}, {Last(R(0))});
  Step(10, 30, {R(1)}, {Prefill(R(1), 0, 4)}, {Last(R(1))});
  script_.Close();
  EXPECT_EQ(meter_.largest_difference(), 12);
  Step(30, 40, {R(3)}, {Prefill(R(3), 0, 100)}, {Last(R(3))});
  script_.Close();
  EXPECT_EQ(meter_.largest_difference(), 12);
}

TEST_F(FairnessMeterTest, MeasuresWithinASpanOfCommonBacklogAndNotAcrossSpans) {
  // Alone, tenant 0 is served 52 units; then both wait and tenant 1 gets 2 units a step: 4 in all.
  script_.Arrive(At(0), R(0), 50, 0);
  Step(0, 10, {R(0)}, {Prefill(R(0), 0, 50)}, {Last(R(0))});
  script_.Arrive(At(10), R(1), 4, 1);
  Step(10, 20, {R(1)}, {Prefill(R(1), 0, 4)});
  script_.Arrive(At(20), R(2), 4, 0);
  script_.Arrive(At(20), R(3), 4, 1);
  Step(20, 30, {}, {Decode(R(1), 4)});
  Step(30, 40, {}, {Decode(R(1), 5)}, {Last(R(1))});
  script_.Close();
  EXPECT_EQ(meter_.largest_difference(), 4);
}

TEST_F(FairnessMeterTest, ChargesAPromptOnce) {
  // Tenant 0 computes its 10 prompt tokens twice, because of a preemption in between.
  script_.Arrive(At(0), R(0), 10, 0);
  script_.Arrive(At(0), R(1), 4, 1);
  script_.Arrive(At(0), R(2), 4, 0);
  Step(0, 10, {R(0)}, {Prefill(R(0), 0, 10)});
  StepPlan plan;
  plan.preempted = {{R(0), Preemption::How::kRecompute}};
  script_.Finish(At(20), script_.Launch(At(10), plan));
  Step(20, 30, {R(0)}, {Prefill(R(0), 0, 11)}, {Last(R(0))});
  script_.Close();
  // 10 + 2 tokens of 2 units each.
  EXPECT_EQ(meter_.largest_difference(), 14);
}

TEST_F(FairnessMeterTest, IsUndefinedForOneTenantAndSaysHowManyItCompares) {
  script_.Arrive(At(0), R(0), 10, 3);
  script_.Close();
  Summary one;
  meter_.Summarise(MetricWriter(one));
  EXPECT_EQ(one.Number("tenants"), 1);
  EXPECT_TRUE(std::isnan(one.Number("max_service_difference")));
  for (std::uint32_t i = 1; i < 40; ++i) script_.Arrive(At(1), R(i), 10, 100 + i);
  script_.Close();
  Summary many;
  meter_.Summarise(MetricWriter(many));
  EXPECT_EQ(many.Number("tenants"), 40);
  EXPECT_EQ(many.Number("tenants_compared"), 32);
  EXPECT_EQ(many.Number("max_service_difference"), 0);
}

}  // namespace
}  // namespace twin
