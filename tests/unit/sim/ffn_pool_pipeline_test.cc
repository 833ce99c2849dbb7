#include "sim/cost/ffn_pool_pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "core/random.h"
#include "core/time.h"

namespace twin::sim {
namespace {

FfnPoolLayer Layer(std::int64_t attention, std::int64_t send, std::int64_t ffn, std::int64_t back) {
  return {Duration{attention}, Duration{send}, Duration{ffn}, Duration{back}};
}

FfnPoolPipe Pipe(std::int32_t micro_batches, std::int64_t latency,
                 FfnPoolPlacement placement = FfnPoolPlacement::kPooled) {
  return {.micro_batches = micro_batches, .latency = Duration{latency}, .placement = placement};
}

FfnPoolLayer DrawLayer(Random& random, std::int64_t most) {
  const auto draw = [&] { return random.UniformInt(0, most); };
  const std::int64_t attention = draw();
  const std::int64_t send = draw();
  const std::int64_t ffn = draw();
  return Layer(attention, send, ffn, draw());
}

std::vector<FfnPoolLayer> Equal(const FfnPoolLayer& layer, std::int32_t layers) {
  return std::vector<FfnPoolLayer>(static_cast<std::size_t>(layers), layer);
}

// An independent way: events in the order of time, and a queue before each resource.
class EventSimulation {
 public:
  EventSimulation(const std::vector<FfnPoolLayer>& layers, const FfnPoolPipe& pipe)
      : layers_(layers), pipe_(pipe) {}

  std::int64_t Run() {
    for (std::int32_t j = 0; j < pipe_.micro_batches; ++j) events_.push({0, 0, j, 0});
    std::int64_t last = 0;
    while (!events_.empty()) {
      const auto [at, layer, j, resource] = events_.top();
      events_.pop();
      if (layer == static_cast<int>(layers_.size())) {
        last = std::max(last, at);
        continue;
      }
      std::int64_t& free_at = free_[static_cast<std::size_t>(resource)];
      free_at = std::max(free_at, at) + Occupied(layer, resource);
      const bool crosses = resource == 1 || resource == 3;
      const std::int64_t arrives = free_at + (crosses ? pipe_.latency.count() : 0);
      events_.push({arrives, resource == 3 ? layer + 1 : layer, j, (resource + 1) % 4});
    }
    return last;
  }

 private:
  using Event = std::tuple<std::int64_t, int, int, int>;  // time, layer, micro-batch, resource

  [[nodiscard]] std::int64_t Occupied(int layer, int resource) const {
    const FfnPoolLayer& times = layers_[static_cast<std::size_t>(layer)];
    return std::array{times.attention, times.send, times.ffn,
                      times.back}[static_cast<std::size_t>(resource)]
        .count();
  }

  std::vector<FfnPoolLayer> layers_;
  FfnPoolPipe pipe_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::array<std::int64_t, 4> free_{};
};

// By hand: s = 7, b = 3, (2 - 1) max(2 x 3, 7) + 7 + 3 = 17, and so on.
TEST(FfnPoolPipelineTest, GivesTheTimesThatWereDerivedByHand) {
  struct Row {
    std::int32_t layers;
    std::int32_t micro_batches;
    FfnPoolLayer layer;
    std::int64_t latency;
    std::int64_t time;
  };
  const Row rows[] = {{2, 2, Layer(3, 1, 2, 1), 0, 17},
                      {3, 3, Layer(4, 1, 5, 1), 0, 51},
                      {2, 4, Layer(3, 1, 3, 1), 2, 33},
                      {1, 3, Layer(5, 2, 4, 2), 1, 25},
                      {61, 3, Layer(200, 100, 260, 100), 5, 47'990}};
  for (const Row& row : rows) {
    const FfnPoolPipe pipe = Pipe(row.micro_batches, row.latency);
    EXPECT_EQ(FfnPoolTimeOfEqual(row.layer, row.layers, pipe), Duration{row.time});
    EXPECT_EQ(FfnPoolTime(Equal(row.layer, row.layers), pipe), Duration{row.time});
  }
}

// By hand: attention is free at 4, 8, 9 and 15; links at 5, 9, 10 and 16; FFN at 6, 10, 14 and 20,
// where the second micro-batch of the second layer waits for nothing but its own way.
TEST(FfnPoolPipelineTest, LayersMayDiffer) {
  const std::vector<FfnPoolLayer> layers = {Layer(4, 1, 1, 1), Layer(1, 1, 4, 1)};
  EXPECT_EQ(FfnPoolTime(layers, Pipe(2, 0)), Duration{19});
}

TEST(FfnPoolPipelineTest, ClosedFormIsTheRecurrence) {
  Random random(1, "afd closed form");
  for (int i = 0; i < 200'000; ++i) {
    const FfnPoolLayer layer = DrawLayer(random, 9);
    const auto layers = static_cast<std::int32_t>(random.UniformInt(1, 12));
    const FfnPoolPipe pipe =
        Pipe(static_cast<std::int32_t>(random.UniformInt(1, 6)), random.UniformInt(0, 5));
    const std::array<FfnPoolLayer, 12> all = {layer, layer, layer, layer, layer, layer,
                                              layer, layer, layer, layer, layer, layer};
    ASSERT_EQ(FfnPoolTimeOfEqual(layer, layers, pipe),
              FfnPoolTime(std::span(all).first(static_cast<std::size_t>(layers)), pipe));
  }
}

TEST(FfnPoolPipelineTest, PooledDevicesServeFirstComeFirst) {
  Random random(2, "afd events");
  for (int i = 0; i < 3'000; ++i) {
    std::vector<FfnPoolLayer> layers(static_cast<std::size_t>(random.UniformInt(1, 6)));
    for (FfnPoolLayer& layer : layers) layer = DrawLayer(random, 9);
    const FfnPoolPipe pipe =
        Pipe(static_cast<std::int32_t>(random.UniformInt(1, 5)), random.UniformInt(0, 5));
    ASSERT_EQ(FfnPoolTime(layers, pipe).count(), EventSimulation(layers, pipe).Run());
  }
}

TEST(FfnPoolPipelineTest, DevicesPerLayerFollowTheClosedFormOrItsBounds) {
  Random random(3, "afd per layer");
  int exact = 0;
  for (int i = 0; i < 20'000; ++i) {
    const FfnPoolLayer layer = DrawLayer(random, 9);
    const auto layers = static_cast<std::int32_t>(random.UniformInt(1, 12));
    const FfnPoolPipe pipe = Pipe(static_cast<std::int32_t>(random.UniformInt(1, 6)),
                                  random.UniformInt(0, 5), FfnPoolPlacement::kPerLayer);
    const Duration time = FfnPoolTime(Equal(layer, layers), pipe);
    ASSERT_EQ(FfnPoolTimeOfEqual(layer, layers, pipe), time);
    const Duration slowest = std::max({layer.attention, layer.send, layer.back});
    if (layer.ffn < slowest) {
      ++exact;
      // As if the FFN had no queue: a pooled one that is not the slowest has none either.
      ASSERT_EQ(FfnPoolTimeOfEqual(layer, layers, Pipe(pipe.micro_batches, pipe.latency.count())),
                time);
      continue;
    }
    const FfnPoolBounds bounds = PerLayerBounds(layer, layers, pipe);
    ASSERT_LE(bounds.least, time);
    ASSERT_GE(bounds.most, time);
  }
  EXPECT_GT(exact, 5'000);
  EXPECT_LT(exact, 19'000);
}

TEST(FfnPoolPipelineTest, OneMicroBatchWaitsForNothing) {
  const FfnPoolLayer layer = Layer(200, 100, 260, 100);
  EXPECT_EQ(FfnPoolTimeOfEqual(layer, 61, Pipe(1, 5)), Duration{61 * 670});
}

// s = 670, b = 260: three fill the pipe. From then on each further one takes 61 x 260.
TEST(FfnPoolPipelineTest, MicroBatchesThatFillThePipeAreEnough) {
  const FfnPoolLayer layer = Layer(200, 100, 260, 100);
  ASSERT_EQ(FillingMicroBatches(layer, Duration{5}), 3);
  EXPECT_EQ(FillingMicroBatches(Layer(0, 0, 0, 0), Duration{5}), 1);
  const auto time = [&](std::int32_t m) { return FfnPoolTime(Equal(layer, 61), Pipe(m, 5)); };
  EXPECT_LT(time(2) - time(1), Duration{61 * 260});
  EXPECT_LT(time(3) - time(2), Duration{61 * 260});
  for (std::int32_t m = 3; m < 70; ++m) EXPECT_EQ(time(m + 1) - time(m), Duration{61 * 260});
}

// Step-3 (arXiv 2507.19427) on 32 GPUs: 61 layers, three micro-batches that fill three equal stages
// (attention, FFN, links). A batch of 6,144 at 4,039 (peak) and 3,910 (mean) tokens/s/GPU is a step
// of 47.54 and 49.10 ms, and a stage of 259.8 and 268.3 us.
TEST(FfnPoolPipelineTest, ReproducesTheStepsOfStep3) {
  for (const auto& [rate, stage] : {std::pair{4039.0, 259'800}, {3910.0, 268'300}}) {
    const FfnPoolLayer layer = Layer(stage, stage / 2, stage, stage / 2);
    ASSERT_EQ(FillingMicroBatches(layer, Duration{0}), 3);
    const double published = 6144 / (32 * rate);
    EXPECT_NEAR(Seconds(FfnPoolTimeOfEqual(layer, 61, Pipe(3, 0))), published, 0.02 * published);
  }
}

// 120 tokens in m micro-batches: attention takes 1 a token and 20 beside, all else is short.
TEST(FfnPoolPipelineTest, FurtherMicroBatchesOfAFixedBatchCost) {
  const auto time = [](std::int32_t m) {
    return FfnPoolTime(Equal(Layer(120 / m + 20, 15, 120 / m + 20, 15), 40), Pipe(m, 0));
  };
  EXPECT_LT(time(2), time(1));
  EXPECT_LT(time(3), time(2));
  for (const std::int32_t m : {3, 4, 5}) EXPECT_LT(time(m), time(m + 1));
}

TEST(FfnPoolPipelineTest, TimeGrowsLinearlyInTheBytesOfTheSlowestLink) {
  const auto time = [](std::int64_t send) {
    return FfnPoolTime(Equal(Layer(20, send, 25, 10), 10), Pipe(4, 3));
  };
  // s = 61 + send; 4 send > s from send 21 on: 9 x 4 send + (61 + send) + 3 send.
  for (const std::int64_t send : {30, 60, 120}) EXPECT_EQ(time(send), Duration{40 * send + 61});
}

}  // namespace
}  // namespace twin::sim
