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
  [[nodiscard]] const kernels::KvCacheView* readable_cache() const override { return &cache; }
  void CopyBlocks(const kernels::KvCacheView&,
                  std::span<const kernels::BlockCopy> copies) override {
    copied += copies.size();
  }

  int launched = 0;
  kernels::KvCacheView cache;
  std::size_t copied = 0;
};

class CountingProbe final : public SpeedProbe {
 public:
  ProbeSeconds Run() override { return {1e-3 * ++runs, 2e-3}; }

  int runs = 0;
};

constexpr std::chrono::hours kEver{1};

TEST(SpeedProbeTest, RunsBetweenStepsAndNotAgainWithinTheInterval) {
  CountingBackend backend;
  CountingProbe probe;
  ProbedBackend probed(backend, probe, {.interval = kEver, .pause = kEver});
  const StepPlan plan;
  for (int i = 0; i < 100; ++i) {
    probed.Launch(plan);
    probed.Collect();
  }
  EXPECT_EQ(backend.launched, 100);
  ASSERT_EQ(probed.samples().size(), 1U);
  EXPECT_EQ(probed.samples()[0].decode, 1e-3);
  EXPECT_EQ(probed.samples()[0].prefill, 2e-3);
}

TEST(SpeedProbeTest, PassesOnCopiesOfBlocks) {
  CountingBackend backend;
  CountingProbe probe;
  ProbedBackend probed(backend, probe);
  EXPECT_EQ(probed.readable_cache(), &backend.cache);
  probed.CopyBlocks(backend.cache, std::vector<kernels::BlockCopy>(3));
  EXPECT_EQ(backend.copied, 3U);
}

// Nothing ran before the first of the steps, so only the second and third have a probe.
TEST(SpeedProbeTest, AStepAfterAPauseGoesWithout) {
  CountingBackend backend;
  CountingProbe probe;
  const StepPlan plan;
  ProbedBackend busy(backend, probe, {.interval = {}, .pause = kEver});
  for (int i = 0; i < 3; ++i) {
    busy.Launch(plan);
    busy.Collect();
  }
  EXPECT_EQ(busy.samples().size(), 2U);
  ProbedBackend resting(backend, probe, {.interval = {}, .pause = std::chrono::milliseconds{-1}});
  for (int i = 0; i < 3; ++i) {
    resting.Launch(plan);
    resting.Collect();
  }
  EXPECT_TRUE(resting.samples().empty());
}

}  // namespace
}  // namespace twin::exec
