// Bytes and operations of steps, derived by hand.
#include "sim/devices/device_work.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "config/models/model_names.h"
#include "tests/unit/sim/test_hardware.h"

namespace twin::sim {
namespace {

StepTotals Decodes(std::int64_t requests) {
  return {.decode_items = requests, .emitting_items = requests};
}

// Llama-3.1-8B in bf16, 64 decodes at 1,000 tokens: 8.030e9 - 0.525e9 parameters of 2 bytes; 64,064
// cache entries of 131,072 bytes read or written: 15.01 + 8.40 GB. 2 x 6.979e9 operations in layers
// and 2 x 0.525e9 in the head for each token, and 4 x 32 x 4,096 a key: 0.960 + 0.034 T.
TEST(DeviceWorkTest, ADenseModelReadsItsWeightsOnceAndTheCacheOfEachRequest) {
  const DeviceWorkModel model(ModelPreset("llama-3.1-8b"), IdealHardware(), {});
  const DeviceWork work = model.WorkOfStep(Decodes(64), 64'000);
  EXPECT_NEAR(work.bytes, 23.40e9, 0.02e9);
  EXPECT_NEAR(work.flops, 0.994e12, 0.002e12);
  EXPECT_EQ(work.link_bytes, 0);
  EXPECT_EQ(work.routed_bytes, 0);
}

// A token sends its vector of 4,096 numbers of 16 bits once to each of 7 others in both halves of
// an all-reduce, at 2 x 32 layers and the embedding.
TEST(DeviceWorkTest, RanksSendWhatTheyReduce) {
  const DeviceWorkModel model(ModelPreset("llama-3.1-8b"), IdealHardware(), {.tensor = 8});
  EXPECT_EQ(model.WorkOfStep(Decodes(1), 0).link_bytes, 2.0 * 7 * 65 * 4096 * 2);
}

// 128 experts, 8 a token: a step of 16 tokens misses each with (1 - 1/16)^16.
TEST(DeviceWorkTest, AMixtureReadsTheExpertsThatItsTokensReach) {
  const DeviceWorkModel model(ModelPreset("qwen3-30b-a3b"), IdealHardware(), {});
  const double experts = 48.0 * 128 * 3 * 2048 * 768 * 2;
  const double one = model.WorkOfStep(Decodes(1), 0).bytes;
  const double sixteen = model.WorkOfStep(Decodes(16), 0).bytes;
  const double entries = 15 * 98'304;
  EXPECT_NEAR(sixteen - one - entries, experts * (15.0 / 16 - std::pow(15.0 / 16, 16)), 1e4);
  EXPECT_GT(model.WorkOfStep(Decodes(1), 0).routed_bytes, 0);
  EXPECT_EQ(model.WorkOfStep(Decodes(1), 0).activation_bytes, 0);
}

// Half of gpt-oss's 36 layers see 128 keys, however long the request is; an entry has 2,048 bytes.
TEST(DeviceWorkTest, WindowsBoundTheKeysThatAreRead) {
  const DeviceWorkModel model(ModelPreset("gpt-oss-120b"), IdealHardware(), {});
  const double at_1000 = model.WorkOfStep(Decodes(4), 4'000).bytes;
  const double at_2000 = model.WorkOfStep(Decodes(4), 8'000).bytes;
  EXPECT_NEAR(at_2000 - at_1000, 18 * 4'000 * 2'048, 1);
}

// Every rank reads the whole latent vectors of its requests: 61 layers of 1,152 bytes.
TEST(DeviceWorkTest, RanksReadWholeLatentVectors) {
  const DeviceWorkModel model(ModelPreset("deepseek-v3"), IdealHardware(), {.tensor = 8});
  EXPECT_NEAR(model.WorkOfStep(Decodes(1), 1'000).bytes - model.WorkOfStep(Decodes(1), 0).bytes,
              8.0 * 61 * 1'152 * 1'000, 100);
}

TEST(DeviceWorkTest, AStepWithoutTokensDoesNothing) {
  const DeviceWorkModel model(ModelPreset("llama-3.1-8b"), IdealHardware(), {});
  EXPECT_EQ(model.WorkOfStep({}, 0), DeviceWork{});
}

}  // namespace
}  // namespace twin::sim
