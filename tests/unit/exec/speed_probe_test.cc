#include "exec/speed_probe.h"

#include <gtest/gtest.h>

namespace twin::exec {
namespace {

class CountingBackend final : public Backend {
 public:
  void Open(RequestId, std::span<const std::int32_t>, const kernels::SamplingParameters&) override {
  }
  void Close(RequestId) override {}
  void Launch(const StepPlan&) override { ++launched; }
  ComputedStep Collect() override { return {}; }

  int launched = 0;
};

class CountingProbe final : public SpeedProbe {
 public:
  ProbeSeconds Run() override { return {1e-3 * ++runs, 2e-3}; }

  int runs = 0;
};

TEST(SpeedProbeTest, RunsBeforeTheFirstStepAndNotAgainWithinTheInterval) {
  CountingBackend backend;
  CountingProbe probe;
  ProbedBackend probed(backend, probe);
  EXPECT_EQ(probe.runs, 0);
  const StepPlan plan;
  // Far less than the interval.
  for (int i = 0; i < 100; ++i) probed.Launch(plan);
  EXPECT_EQ(backend.launched, 100);
  ASSERT_EQ(probed.samples().size(), 1U);
  EXPECT_EQ(probed.samples()[0].decode, 1e-3);
  EXPECT_EQ(probed.samples()[0].prefill, 2e-3);
}

}  // namespace
}  // namespace twin::exec
