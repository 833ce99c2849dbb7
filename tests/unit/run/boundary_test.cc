// The boundary between clients and engine, from the configuration to metrics and record.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "run/files/record_file.h"
#include "run/measured_run.h"
#include "run/record/recorded_run.h"
#include "run/run_metrics.h"
#include "run/simulation.h"
#include "sim/devices/profile_config.h"
#include "tests/support/unique_name.h"

namespace twin::run {
namespace {

using ::testing::HasSubstr;

ExperimentConfig Experiment(const std::string& boundary, const std::string& world = "") {
  return ParseExperiment(
      "seed: 3 workload { requests: 100 arrivals { kind: poisson rate: 40 } shape { "
      "prompt { kind: uniform min: 4 max: 60 } output { kind: uniform min: 2 max: 30 } } } "
      "system { hardware: 'cpu-generic' model_shape { layers: 2 hidden: 32 intermediate: 48 "
      "query_heads: 4 kv_heads: 2 head_dim: 8 vocab: 101 max_position: 128 weight_dtype: fp32 "
      "kv_dtype: bf16 } memory { blocks_override: 640 } " +
          boundary +
          " } cost { constant { step_s: 0.01 } } policy { vllm_v1 { max_model_len: 128 } } " +
          world,
      "test", "/");
}

constexpr const char* kBoundary =
    "boundary { request_s { mean_s: 0.003 } response_s { kind: exponential mean_s: 0.002 } }";

TEST(BoundaryMetricsTest, ClientsLatencyIsTheEnginesAndTheWay) {
  RunControl control;
  const Summary summary = Simulate(Resolve(Experiment(kBoundary)), control).summary;
  for (const std::string latency : {"ttft", "e2el"}) {
    EXPECT_NEAR(summary.Number("mean_" + latency + "_ms"),
                summary.Number("mean_engine_" + latency + "_ms") +
                    summary.Number("mean_request_delay_ms") +
                    summary.Number("mean_response_delay_ms"),
                1e-6);
  }
  EXPECT_DOUBLE_EQ(summary.Number("mean_request_delay_ms"), 3);
  EXPECT_NEAR(summary.Number("mean_response_delay_ms"), 2, 0.6);  // 100 draws, deviation 2
  EXPECT_EQ(std::get<std::string>(*summary.Find("latencies_at")), "client");
}

TEST(BoundaryMetricsTest, WithoutABoundaryNoKeyAppears) {
  RunControl control;
  const Summary summary = Simulate(Resolve(Experiment("")), control).summary;
  EXPECT_EQ(summary.Find("latencies_at"), nullptr);
  EXPECT_EQ(summary.Find("mean_engine_ttft_ms"), nullptr);
}

// The record alone gives the metrics of the run again.
TEST(BoundaryMetricsTest, TheRecordHoldsBothSides) {
  const std::filesystem::path folder = testing::UniqueName("boundary");
  RunControl control;
  const ExperimentConfig config = Experiment(kBoundary);
  const Summary ran = RunSimulation(config, folder, {}, control).summary;
  {
    RecordReader reader(folder / "record.pb");
    RecordedRun events;
    ReadEvents(reader, events);
    const Deployment deployment = Resolve(config);
    RunMetrics metrics(deployment, {});
    NotifyObservers(events, metrics.observers());
    const Summary again = metrics.Summarise();
    for (const std::string key : {"mean_ttft_ms", "p99_engine_e2el_ms", "std_response_delay_ms"}) {
      EXPECT_EQ(again.Number(key), ran.Number(key)) << key;
    }
    std::ifstream file(folder / "requests.csv");
    const std::string rows{std::istreambuf_iterator<char>(file), {}};
    EXPECT_THAT(rows, HasSubstr("reject_reason,reached_s,engine_first_token_s,engine_finished_s"));
  }
  std::filesystem::remove_all(folder);
}

ExperimentConfig OnGpu(const std::string& system, const std::string& cost = "profile {}") {
  return ParseExperiment(
      "seed: 3 workload { requests: 1 arrivals { kind: poisson rate: 1 } shape { prompt { kind: "
      "fixed value: 8 } output { kind: fixed value: 2 } } } policy { vllm_v1 {} } system { model: "
      "'llama-3.1-8b' " +
          system + " } cost { " + cost + " }",
      "test", "/");
}

std::optional<sim::BoundaryConfig> ResolvedBoundary(const std::string& system,
                                                    const std::string& cost = "profile {}") {
  return Resolve(OnGpu(system, cost)).config.system.boundary;
}

double DelayOf(const std::optional<sim::BoundaryConfig>& boundary) {
  return boundary ? Seconds(boundary->request.mean + boundary->response.mean) : 0;
}

// sim/devices/profiles/h100-sxm/boundary.textproto.
TEST(ProfileBoundaryTest, IsTheOneMeasuredForTheNumberOfRanks) {
  EXPECT_NEAR(DelayOf(ResolvedBoundary("hardware: 'h100-sxm'")), 6.4e-3, 1e-8);
  EXPECT_NEAR(DelayOf(ResolvedBoundary("hardware: 'h100-sxm' tensor_parallel: 2")), 8.5e-3, 1e-8);
}

TEST(ProfileBoundaryTest, IsNoneWhereNothingWasMeasuredOrAnotherModelIsAsked) {
  EXPECT_EQ(ResolvedBoundary("hardware: 'rtx-pro-6000-server'"), std::nullopt);
  EXPECT_EQ(ResolvedBoundary("hardware: 'h100-sxm'", "constant { step_s: 1 }"), std::nullopt);
}

// Its clients send no HTTP.
TEST(ProfileBoundaryTest, IsNoneForThisProgramsExecutor) {
  EXPECT_EQ(ResolvedBoundary("hardware: 'h100-sxm'", "profile { engine: twinserve }"),
            std::nullopt);
}

TEST(ProfileBoundaryTest, GivesWayToTheExperiments) {
  EXPECT_EQ(DelayOf(ResolvedBoundary("hardware: 'h100-sxm' boundary {}")), 0);
  EXPECT_EQ(DelayOf(ResolvedBoundary("hardware: 'h100-sxm' boundary { response_s { mean_s: 1 } }")),
            1);
}

// The deployment of draw number `draw`.
Deployment Drawn(const std::string& system, std::uint64_t draw) {
  ExperimentConfig config = OnGpu(system);
  config.cost.Get<sim::ProfileCostConfig>().draw_seed = draw;
  return Resolve(config);
}

TEST(ProfileBoundaryTest, IsDrawnWithTheCostModel) {
  const std::string system = "hardware: 'h100-sxm'";
  const double first = DelayOf(Drawn(system, 1).world.boundary);
  EXPECT_EQ(DelayOf(Drawn(system, 1).world.boundary), first);
  EXPECT_NE(DelayOf(Drawn(system, 2).world.boundary), first);
  EXPECT_NEAR(first, 6.4e-3, 3 * 0.1 * 6.4e-3);  // three standard deviations
}

TEST(ProfileBoundaryTest, AServersIsDrawnToo) {
  const std::string system = "hardware: 'h100-sxm' server: 'vllm-0.23.0'";
  EXPECT_NEAR(DelayOf(Drawn(system, 0).world.boundary), 6.8e-3, 1e-8);
  const double first = DelayOf(Drawn(system, 1).world.boundary);
  EXPECT_GT(std::abs(first - 6.8e-3), 1e-6);
  EXPECT_NEAR(first, 6.8e-3, 3 * 0.1 * 6.8e-3);
  EXPECT_NE(Drawn(system, 1).world.boundary->request.cv,
            Drawn(system, 2).world.boundary->request.cv);
}

// A draw begins with the resolved configuration of another.
TEST(ProfileBoundaryTest, ADrawLeavesTheConfigurationAsItWas) {
  for (const std::string server : {"", "server: 'vllm-0.33.0'"}) {
    const std::string system = "hardware: 'h100-sxm' " + server;
    EXPECT_EQ(Drawn(system, 1).config.system.boundary, Drawn(system, 0).config.system.boundary);
    const Deployment drawn = Drawn(system, 1);
    EXPECT_EQ(Resolve(drawn.config).world.boundary, drawn.world.boundary);
  }
}

TEST(ProfileBoundaryTest, TheExperimentsOwnIsNotDrawn) {
  const Deployment drawn = Drawn("hardware: 'h100-sxm' boundary { response_s { mean_s: 1 } }", 1);
  EXPECT_EQ(DelayOf(drawn.world.boundary), 1);
}

TEST(ClientTimeoutTest, SimulatedClientsGiveUp) {
  RunControl control;
  const Summary summary =
      Simulate(Resolve(Experiment("", "world { simulated { client_timeout_s: 0.1 } }")), control)
          .summary;
  EXPECT_GT(summary.Number("cancelled"), 0);
  EXPECT_EQ(summary.Number("cancelled") + summary.Number("completed"), 100);
  EXPECT_LE(summary.Number("max_e2el_ms"), 100);
}

}  // namespace
}  // namespace twin::run
