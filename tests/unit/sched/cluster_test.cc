// A cluster of engines, driven by hand.
#include "sched/cluster.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sched/policy/registry.h"

namespace twin {
namespace {

constexpr TimePoint At(std::int64_t ns) { return kTimeZero + Duration{ns}; }

std::unique_ptr<Cluster> MakeCluster(RouterKind kind, std::int32_t replicas) {
  VllmV1Config config;
  config.max_num_batched_tokens = config.max_model_len = 64;
  std::vector<std::unique_ptr<Engine>> engines;
  for (std::int32_t i = 0; i < replicas; ++i) {
    EngineConfig engine;
    engine.kv = {.block_size = 4, .blocks = 16};
    engine.prompt_tokens_max = 50;
    engine.replica = i;
    engines.push_back(std::make_unique<Engine>(engine, MakePolicy(config, engine.kv)));
  }
  return std::make_unique<Cluster>(std::move(engines), MakeRouter({.kind = kind}, replicas, 4, 1),
                                   Duration{0});
}

RequestArrived Arrival(std::uint32_t id, std::int32_t prompt_tokens = 8) {
  RequestArrived arrived;
  arrived.request.id = RequestId{id};
  arrived.request.prompt_tokens = prompt_tokens;
  arrived.request.max_output_tokens = 4;
  return arrived;
}

StepFinished FirstStepOf(std::int32_t replica, std::span<const ItemOutcome> outcomes = {}) {
  return {StepId{1}, At(0), outcomes, {}, replica};
}

std::vector<std::uint32_t> RequestsOf(const StepPlan& plan) {
  std::vector<std::uint32_t> requests;
  for (const WorkItem& item : plan.work) requests.push_back(Index(item.request));
  return requests;
}

using Requests = std::vector<std::uint32_t>;

TEST(ClusterTest, PlansReplicaByReplicaAndOnlyThoseThatHeardOfSomething) {
  const auto cluster = MakeCluster(RouterKind::kRoundRobin, 3);
  for (std::uint32_t id = 0; id < 4; ++id) cluster->Handle(At(0), Arrival(id));
  std::vector<const StepPlan*> plans;
  while (const StepPlan* plan = cluster->PlanStep(At(0))) plans.push_back(plan);
  ASSERT_EQ(plans.size(), 3u);
  EXPECT_EQ(RequestsOf(*plans[0]), (Requests{0, 3}));
  EXPECT_EQ(RequestsOf(*plans[1]), (Requests{1}));
  EXPECT_EQ(RequestsOf(*plans[2]), (Requests{2}));
  for (std::int32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(plans[static_cast<std::size_t>(i)]->replica, i);
    EXPECT_EQ(Index(plans[static_cast<std::size_t>(i)]->id), 1u);  // steps count by replica
  }
  cluster->Handle(At(5), FirstStepOf(1));
  const StepPlan* const next = cluster->PlanStep(At(5));
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->replica, 1);
  EXPECT_EQ(RequestsOf(*next), (Requests{1}));
  EXPECT_EQ(cluster->PlanStep(At(5)), nullptr);
}

// Requests 0 and 1 are placed on 0 and 1. Once 0 has ended, replica 0 is empty.
TEST(ClusterTest, RoutesByWhatHasEnded) {
  const auto cluster = MakeCluster(RouterKind::kLeastRequests, 2);
  cluster->Handle(At(0), Arrival(0));
  cluster->Handle(At(0), Arrival(1));
  while (cluster->PlanStep(At(0)) != nullptr) {
  }
  const std::array<ItemOutcome, 1> ended = {{{RequestId{0}, 1, FinishReason::kStop}}};
  cluster->Handle(At(5), FirstStepOf(0, ended));
  while (cluster->PlanStep(At(5)) != nullptr) {
  }
  cluster->Handle(At(6), Arrival(2));
  cluster->Handle(At(6), Arrival(3));  // 1, 1: the first
  const StepPlan* const plan = cluster->PlanStep(At(6));
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->replica, 0);
  EXPECT_EQ(RequestsOf(*plan), (Requests{2, 3}));
}

// A cancelled request and one that is too long leave room, as ended ones do.
TEST(ClusterTest, RoutesByWhatWasCancelledAndRejected) {
  const auto cluster = MakeCluster(RouterKind::kLeastRequests, 2);
  cluster->Handle(At(0), Arrival(0));
  cluster->Handle(At(0), Arrival(1, 51));
  while (cluster->PlanStep(At(0)) != nullptr) {
  }
  cluster->Handle(At(1), Arrival(2));  // replica 1 has rejected its request: 1, 0
  while (cluster->PlanStep(At(1)) != nullptr) {
  }
  EXPECT_EQ(cluster->engine(1).census().waiting, 1);
  cluster->Handle(At(2), RequestCancelled{RequestId{0}});
  cluster->Handle(At(2), RequestCancelled{RequestId{0}});
  EXPECT_EQ(cluster->PlanStep(At(2)), nullptr);
  cluster->Handle(At(3), Arrival(3));  // 0, 1
  EXPECT_EQ(cluster->engine(0).census().waiting, 1);
}

TEST(ClusterTest, AWakeUpConcernsAllReplicas) {
  const auto cluster = MakeCluster(RouterKind::kRoundRobin, 2);
  cluster->Handle(At(0), Arrival(0));
  cluster->Handle(At(0), WakeUp{});
  EXPECT_NE(cluster->PlanStep(At(0)), nullptr);
  EXPECT_EQ(cluster->PlanStep(At(0)), nullptr);
}

}  // namespace
}  // namespace twin
