#include "sim/cost/operation_graph.h"

#include <gtest/gtest.h>

#include <string>

namespace twin::sim {
namespace {

// An operation of `seconds` for each execution.
Operation Lasting(std::string name, double seconds, std::int64_t count = 1) {
  Operation operation;
  operation.name = std::move(name);
  operation.count = count;
  operation.gate = Feature::kOne;
  operation.constant_latency_s = seconds;
  return operation;
}

StepFeatures OnlyOne() {
  StepFeatures x{};
  x[static_cast<std::size_t>(Feature::kOne)] = 1;
  return x;
}

//        b (3)
// a (1) <      > d (2) - e (4)      and f (5) on its own
//        c (7)
struct Diamond {
  OperationGraph graph;

  Diamond() {
    // Added out of order: the path must not depend on it.
    const auto e = graph.Add(Lasting("e", 4));
    const auto d = graph.Add(Lasting("d", 2));
    const auto c = graph.Add(Lasting("c", 7));
    const auto b = graph.Add(Lasting("b", 3));
    const auto a = graph.Add(Lasting("a", 1));
    graph.Add(Lasting("f", 5));
    graph.Order(a, b);
    graph.Order(a, c);
    graph.Order(b, d);
    graph.Order(c, d);
    graph.Order(d, e);
  }
};

TEST(CriticalPathTest, IsTheLongestPath) {
  EXPECT_DOUBLE_EQ(CriticalPath(Diamond().graph).Seconds(OnlyOne()), 1 + 7 + 2 + 4);
}

TEST(CriticalPathTest, BreakdownMarksTheOperationsOnIt) {
  const CriticalPath path(Diamond().graph);
  std::string critical;
  std::string others;
  double sum = 0;
  for (const OperationCost& cost : path.Breakdown(OnlyOne())) {
    (cost.on_critical_path ? critical : others) += cost.name;
    if (cost.on_critical_path) sum += cost.seconds;
  }
  EXPECT_EQ(critical, "acde");
  EXPECT_EQ(others.size(), 2u);
  EXPECT_DOUBLE_EQ(sum, path.Seconds(OnlyOne()));
}

TEST(CriticalPathTest, ACountStandsForCopiesInSeries) {
  // Three copies of the block x -> (y | z) -> w unrolled, against one with counts.
  OperationGraph unrolled;
  OperationGraph folded;
  auto tail = unrolled.Add(Lasting("in", 1));
  for (int i = 0; i < 3; ++i) {
    const auto x = unrolled.Add(Lasting("x", 2));
    const auto y = unrolled.Add(Lasting("y", 5));
    const auto z = unrolled.Add(Lasting("z", 4));
    const auto w = unrolled.Add(Lasting("w", 1));
    unrolled.Order(tail, x);
    unrolled.Order(x, y);
    unrolled.Order(x, z);
    unrolled.Order(y, w);
    unrolled.Order(z, w);
    tail = w;
  }
  const auto in = folded.Add(Lasting("in", 1));
  const auto x = folded.Add(Lasting("x", 2, 3));
  const auto y = folded.Add(Lasting("y", 5, 3));
  const auto z = folded.Add(Lasting("z", 4, 3));
  const auto w = folded.Add(Lasting("w", 1, 3));
  folded.Order(in, x);
  folded.Order(x, y);
  folded.Order(x, z);
  folded.Order(y, w);
  folded.Order(z, w);
  EXPECT_DOUBLE_EQ(CriticalPath(unrolled).Seconds(OnlyOne()), 1 + 3 * (2 + 5 + 1));
  EXPECT_DOUBLE_EQ(CriticalPath(folded).Seconds(OnlyOne()), 1 + 3 * (2 + 5 + 1));
}

TEST(CriticalPathTest, AnOperationTakesTheLargerOfComputeAndMemoryPlusLatency) {
  Operation operation;
  operation.name = "gemm";
  operation.gate = Feature::kTokens;
  operation.flops = {Feature::kTokens, 100};
  operation.constant_bytes = 50;
  operation.bytes[0] = {Feature::kTokens, 1};
  operation.flops_per_s = 1000;
  operation.bytes_per_s = 10;
  operation.constant_latency_s = 2;
  operation.latency_s = {Feature::kDecodeItems, 0.5};
  OperationGraph graph;
  graph.Add(operation);
  const CriticalPath path(graph);
  StepFeatures x = OnlyOne();
  x[static_cast<std::size_t>(Feature::kTokens)] = 10;
  x[static_cast<std::size_t>(Feature::kDecodeItems)] = 4;
  EXPECT_DOUBLE_EQ(path.Seconds(x), 2 + 4 * 0.5 + 60.0 / 10);  // memory: 6 s, compute: 1 s
  operation.flops_per_s = 100;
  OperationGraph slower;
  slower.Add(operation);
  EXPECT_DOUBLE_EQ(CriticalPath(slower).Seconds(x), 2 + 4 * 0.5 + 1000.0 / 100);
}

TEST(CriticalPathTest, AnOperationWithoutWorkIsNotLaunched) {
  Operation operation = Lasting("head", 3);
  operation.gate = Feature::kEmittingItems;
  OperationGraph graph;
  graph.Add(operation);
  const CriticalPath path(graph);
  EXPECT_EQ(path.Seconds(OnlyOne()), 0);
  EXPECT_EQ(path.Breakdown(OnlyOne())[0].count, 0);
}

}  // namespace
}  // namespace twin::sim
