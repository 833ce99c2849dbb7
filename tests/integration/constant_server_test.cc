// A server of a constant rate at full load has the same rates however its runs are measured.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "run/simulation.h"

namespace twin::run {
namespace {

// Eight requests at a time, 50 steps of 10 ms each: 16 requests/s and 800 output tokens/s.
ExperimentConfig Server(const std::string& arrivals, int requests, double head, double tail) {
  return ParseExperiment(
      fmt::format(
          "seed: 3 workload {{ requests: {} arrivals {{ {} }} shape {{ prompt {{ kind: fixed "
          "value: 100 }} output {{ kind: fixed value: 50 }} }} }} policy {{ vllm_v1 {{ "
          "max_num_batched_tokens: 2048 max_num_seqs: 8 max_model_len: 4096 }} }} system {{ "
          "model: 'llama-3-8b' hardware: 'h100-sxm' memory {{ blocks_override: 1000 }} }} "
          "cost {{ constant {{ step_s: 0.01 }} }} metrics {{ head_share: {} tail_share: {} }}",
          requests, arrivals, head, tail),
      "test", "/");
}

struct Rates {
  double requests = 0;
  double tokens = 0;
};

Rates RatesOf(const ExperimentConfig& config) {
  RunControl control;
  const Summary summary = Simulate(Resolve(config), control).summary;
  return {summary.Number("request_throughput"), summary.Number("output_throughput")};
}

// The window of a random arrival may begin anywhere in the half second of a batch: 8 requests more
// or less. With an arrival per completion it begins and ends with a batch.
TEST(ConstantServerTest, HasTheSameRatesForEachPartOfTheRunAndKindOfArrival) {
  struct Arrivals {
    std::string text;
    bool with_batches;
  };
  const Arrivals kinds[] = {
      {"kind: all_at_once", true},           {"kind: closed_loop users: 8", true},
      {"kind: closed_loop users: 64", true}, {"kind: closed_loop users: 512", true},
      {"kind: poisson rate: 40", false},     {"kind: gamma rate: 200 cv: 3", false},
      {"kind: constant rate: 100", false}};
  constexpr int kRequests = 2000;
  for (const auto& [arrivals, with_batches] : kinds) {
    for (const double head : {0.0, 0.25, 0.5, 0.75}) {
      for (const double tail : {0.0, 0.2}) {
        const Rates rates = RatesOf(Server(arrivals, kRequests, head, tail));
        const double counted = (1 - head - tail) * kRequests;
        const double tolerance = with_batches ? 1e-9 : 8 / counted;
        EXPECT_NEAR(rates.requests / 16, 1, tolerance) << arrivals << ' ' << head << ' ' << tail;
        EXPECT_NEAR(rates.tokens / 800, 1, tolerance) << arrivals << ' ' << head << ' ' << tail;
      }
    }
  }
}

TEST(ConstantServerTest, ClientsThatLeaveTakeTheirTime) {
  ExperimentConfig config = Server("kind: poisson rate: 40", 1000, 0, 0);
  std::get<SimulatedWorldConfig>(config.world).client_timeout = Duration{2'000'000'000};
  RunControl control;
  const Summary summary = Simulate(Resolve(config), control).summary;
  // Nobody is served for long after the first two seconds: the others come for 25 s in all.
  const double completed = summary.Number("completed");
  EXPECT_LT(completed, 100);
  EXPECT_NEAR(summary.Number("request_throughput"), completed / 25, 0.1 * completed / 25);
  EXPECT_GT(summary.Number("unanswered_share"), 0.9);
  EXPECT_EQ(std::get<std::string>(*summary.Find("saturated")), "yes");
}

}  // namespace
}  // namespace twin::run
