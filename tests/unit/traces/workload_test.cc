#include "traces/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/input_error.h"
#include "tests/unit/traces/drawn_workload.h"
#include "tests/unit/traces/trace_samples.h"

namespace twin {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// From 100/s to 300/s in 100 s: 20,000 expected in the ramp, of which the first half brings
// 50 * (100 + 200)/2 = 7,500 and the second 12,500; then 300/s. Poisson: sigma = sqrt(mean).
TEST(WorkloadTest, EqualSeedsGiveEqualRequests) {
  auto config = Drawn(2'000, {.kind = ArrivalConfig::Kind::kGamma, .rate = 20, .cv = 2});
  config.preset = WorkloadPreset::kConversation;
  config.shape = {};
  config.shape.shared_prefix = {.prompts = 5, .tokens = 64};
  config.shape.sessions.turns = {.kind = IntegerDistribution::Kind::kUniform, .min = 1, .max = 4};
  EXPECT_EQ(DrawAll(config, 9), DrawAll(config, 9));
  EXPECT_NE(DrawAll(config, 9), DrawAll(config, 10));
}

// Log-normal, sigma from mean and median: prompt sigma^2 = 2 ln(1155/1020) = 0.2486, output
// sigma^2 = 2 ln(211/129) = 0.984. Relative standard error sqrt((exp(sigma^2) - 1)/n): 0.17 % and
// 0.41 % of 100,000; rounding is unbiased, clipping at 16384 takes less than 0.1 %.
TEST(WorkloadTest, ConversationPresetHasItsMeans) {
  auto config = Drawn(100'000, Poisson(10));
  config.shape = {};
  config.preset = WorkloadPreset::kConversation;
  double prompt = 0;
  double output = 0;
  for (const auto& request : DrawAll(config, 1)) {
    prompt += request.prompt_tokens;
    output += request.output_tokens;
  }
  EXPECT_NEAR(prompt / 100'000, 1155, 1155 * 0.0095);
  EXPECT_NEAR(output / 100'000, 211, 211 * 0.022);
}

TEST(WorkloadTest, LengthsStayWithinTheirBounds) {
  auto config = Drawn(20'000, Poisson(10));
  config.shape.prompt = {
      .kind = IntegerDistribution::Kind::kLogNormal, .min = 10, .max = 50, .mean = 30, .sigma = 2};
  config.shape.output = {
      .kind = IntegerDistribution::Kind::kZipf, .min = 3, .max = 6, .exponent = 1};
  std::set<std::int32_t> prompts;
  std::map<std::int32_t, int> outputs;
  for (const auto& request : DrawAll(config, 1)) {
    prompts.insert(request.prompt_tokens);
    ++outputs[request.output_tokens];
  }
  EXPECT_EQ(*prompts.begin(), 10);
  EXPECT_EQ(*prompts.rbegin(), 50);
  ASSERT_EQ(outputs.size(), 4u);
  // Zipf over four: weights 1, 1/2, 1/3, 1/4, sum 25/12; the first has 0.48.
  EXPECT_NEAR(outputs[3], 20'000 * 0.48, 5 * std::sqrt(20'000 * 0.48 * 0.52));
}

TEST(WorkloadTest, EmpiricalLengthsComeFromAFileOrFromQuantiles) {
  const ScratchDirectory scratch("quantiles");
  std::ofstream(scratch.File("q.csv")) << "probability,tokens\n0,10\n1,20\n";
  auto config = Drawn(10'000, Poisson(10));
  config.shape.prompt = {.kind = IntegerDistribution::Kind::kEmpirical,
                         .path = scratch.File("q.csv")};
  config.shape.output = {
      .kind = IntegerDistribution::Kind::kEmpirical, .probabilities = {0, 1}, .values = {10, 20}};
  double prompt = 0;
  double output = 0;
  for (const auto& request : DrawAll(config, 1)) {
    prompt += request.prompt_tokens;
    output += request.output_tokens;
  }
  const double bound = 5 * std::sqrt(100.0 / 12 / 10'000);  // uniform over 10..20
  EXPECT_NEAR(prompt / 10'000, 15, bound);
  EXPECT_NEAR(output / 10'000, 15, bound);
}

TEST(WorkloadTest, MaxOutputRules) {
  auto config = Drawn(1, Poisson(1));
  EXPECT_EQ(DrawAll(config, 1).at(0).max_output_tokens, 10);
  config.max_output = {.kind = MaxOutputRule::Kind::kFixed, .tokens = 64};
  EXPECT_EQ(DrawAll(config, 1).at(0).max_output_tokens, 64);
  config.max_output.tokens = 4;
  EXPECT_EQ(DrawAll(config, 1).at(0).output_tokens, 4);
  config.max_output = {.kind = MaxOutputRule::Kind::kFactor, .factor = 1.25};
  EXPECT_EQ(DrawAll(config, 1).at(0).max_output_tokens, 13);  // ceil(12.5)
}

TEST(WorkloadTest, PredictsOnlyWhereAsked) {
  auto config = Drawn(2'000, Poisson(1));
  EXPECT_EQ(DrawAll(config, 1).at(0).predicted_output_tokens, -1);
  config.prediction.kind = PredictionConfig::Kind::kOracle;
  EXPECT_EQ(DrawAll(config, 1).at(7).predicted_output_tokens, 10);
  config.prediction = {.kind = PredictionConfig::Kind::kLogNormal, .sigma = 0.5};
  int above = 0;
  for (const auto& request : DrawAll(config, 1)) above += request.predicted_output_tokens > 10;
  EXPECT_NEAR(above, 1'000, 5 * std::sqrt(500));  // the median of the error is 1
}

TEST(WorkloadTest, TenantsAreDrawnByWeightWithTheirOwnLengths) {
  auto config = Drawn(40'000, Poisson(10));
  config.shape.priority = 5;
  config.shape.tenants = {{.weight = 3}, {.weight = 1, .prompt = Fixed(7), .priority = 1}};
  std::int64_t second = 0;
  for (const auto& request : DrawAll(config, 1)) {
    second += request.tenant;
    ASSERT_EQ(request.prompt_tokens, request.tenant == 1 ? 7 : 100);
    ASSERT_EQ(request.priority, request.tenant == 1 ? 1 : 5);
  }
  EXPECT_NEAR(static_cast<double>(second), 10'000, 5 * std::sqrt(40'000 * 0.25 * 0.75));
}

TEST(WorkloadTest, SharedPrefixesAreSharedAndTheRestIsNot) {
  auto config = Drawn(500, Poisson(10));
  config.shape.prefix_chunk_tokens = 16;
  config.shape.shared_prefix = {.prompts = 2, .tokens = 40, .zipf_exponent = 0};
  std::set<std::uint64_t> systems;
  std::set<std::uint64_t> rest;
  for (const auto& request : DrawAll(config, 1)) {
    ASSERT_EQ(request.prompt_tokens, 140);
    ASSERT_EQ(request.prefix_chunks.size(), 150u / 16);  // prompt and output, whole chunks
    systems.insert(request.prefix_chunks[0]);
    systems.insert(request.prefix_chunks[1]);  // 40 tokens are two whole chunks
    for (std::size_t i = 2; i < request.prefix_chunks.size(); ++i) {
      ASSERT_TRUE(rest.insert(request.prefix_chunks[i]).second);
    }
  }
  EXPECT_EQ(systems.size(), 4u);  // two prompts of two chunks
}

// One user, service 1 s, think 2 s: arrivals at 0, 3, 6.
// Arrivals each 100 ms, service 1 s, a cap of 2: the third waits for the first, done at 1.1 s, the
// fourth for the second, done at 1.2 s; then each for the one two before.
TEST(ClassesTest, ShareArrivalsByWeight) {
  auto config = Drawn(40'000, Poisson(10));
  config.classes = {{.name = "a", .weight = 1, .shape = config.shape},
                    {.name = "b", .weight = 3, .shape = config.shape}};
  config.shape = {};
  std::int64_t second = 0;
  for (const auto& request : DrawAll(config, 1)) second += request.tenant;
  EXPECT_NEAR(static_cast<double>(second), 30'000, 5 * std::sqrt(40'000 * 0.25 * 0.75));
}

TEST(ClassesTest, WithTheirOwnArrivalsAreMergedByTime) {
  auto config = Drawn(0, {});
  config.duration = seconds(1'000);
  config.classes = {
      {.arrivals = Poisson(3), .shape = config.shape},
      {.arrivals = ArrivalConfig{.kind = ArrivalConfig::Kind::kClosedLoop, .users = 2},
       .shape = config.shape}};
  config.classes[1].arrivals->think.mean = seconds(1);
  config.shape = {};
  const auto served = Serve(*MakeWorkload(config, 1), [](std::size_t) { return seconds(1); });
  std::map<std::uint32_t, double> counts;
  TimePoint last = kTimeZero;
  for (const auto& request : served.requests) {
    ++counts[request.tenant];
    ASSERT_GE(request.arrival, last);
    last = request.arrival;
  }
  EXPECT_NEAR(counts[0], 3'000, 5 * std::sqrt(3'000));
  EXPECT_EQ(counts[1], 1'000);  // two users, every 2 s, at 0 to 998
}

TEST(TraceWorkloadTest, CutsScalesAndRepeats) {
  WorkloadConfig config;
  config.trace = TraceConfig{.path = SamplePath("vidur.csv")};  // 0, 0.5, 1.0 s
  const auto arrivals_ms = [&] {
    std::vector<std::int64_t> ms;
    for (const auto& r : DrawAll(config, 1)) ms.push_back(Nanoseconds(r.arrival) / 1'000'000);
    return ms;
  };
  EXPECT_EQ(arrivals_ms(), (std::vector<std::int64_t>{0, 500, 1000}));
  config.trace->rate_scale = 2;
  EXPECT_EQ(arrivals_ms(), (std::vector<std::int64_t>{0, 250, 500}));
  config.trace->repeat = 2;  // the mean gap is 250 ms
  EXPECT_EQ(arrivals_ms(), (std::vector<std::int64_t>{0, 250, 500, 750, 1000, 1250}));
  config.requests = 4;
  EXPECT_EQ(arrivals_ms(), (std::vector<std::int64_t>{0, 250, 500, 750}));
  config.requests = 0;
  config.trace = TraceConfig{.path = SamplePath("vidur.csv"), .start = milliseconds(400)};
  EXPECT_EQ(arrivals_ms(), (std::vector<std::int64_t>{100, 600}));
  config.trace->duration = milliseconds(600);
  EXPECT_EQ(arrivals_ms(), (std::vector<std::int64_t>{100}));
  config.trace->start = seconds(50);
  EXPECT_THROW(arrivals_ms(), InputError);
}

// The clock of a trace may begin anywhere, as that of the epoch: the run begins with its first
// request.
TEST(TraceWorkloadTest, ARunBeginsWithTheFirstRequestOfItsTrace) {
  const ScratchDirectory scratch("trace_clock");
  const auto arrivals_ns = [&scratch](const std::string& whole_seconds) {
    std::ofstream(scratch.File("t.csv")) << "arrival_s,prompt_tokens,output_tokens\n"
                                         << whole_seconds << "0.250000001,4,4\n"
                                         << whole_seconds << "1.750000004,4,4\n";
    WorkloadConfig config;
    config.trace = TraceConfig{.path = scratch.File("t.csv")};
    std::vector<std::int64_t> times;
    for (const TracedRequest& request : DrawAll(config, 1)) {
      times.push_back(Nanoseconds(request.arrival));
    }
    return times;
  };
  EXPECT_EQ(arrivals_ns(""), (std::vector<std::int64_t>{0, 1'500'000'003}));
  EXPECT_EQ(arrivals_ns("176403240"), arrivals_ns(""));  // 1764032400.25 s: November 2025
}

TEST(TraceWorkloadTest, RepeatsShareNoContent) {
  WorkloadConfig config;
  config.trace = TraceConfig{.path = SamplePath("mooncake.jsonl"), .repeat = 2};
  const auto requests = DrawAll(config, 1);
  ASSERT_EQ(requests.size(), 6u);
  EXPECT_NE(requests[0].prefix_chunks[0], requests[3].prefix_chunks[0]);
  EXPECT_EQ(requests[3].prefix_chunks[0], requests[4].prefix_chunks[0]);
}

TEST(TraceWorkloadTest, LengthsAloneNeedArrivals) {
  WorkloadConfig config;
  config.trace = TraceConfig{.path = SamplePath("sharegpt.csv")};
  EXPECT_THROW(MakeWorkload(config, 1), InputError);
  config.arrivals = Poisson(5);
  EXPECT_EQ(DrawAll(config, 1).size(), 3u);
}

// One client: rate 0.5/s over 600 s are 300 requests, whatever the tail of its gaps.
TEST(ServeGenTest, MeetsTheMeasuredRateAndBorrowsLengths) {
  const ScratchDirectory scratch("servegen");
  std::ofstream(scratch.File("a.csv"))
      << "client,window_start_s,rate_rps,iat_cv,dist,shape,scale_s\n"
         "3,0,0.5,30,Gamma,0.01,200\n4,0,0.1,1,Weibull,1,10\n3,600,1,1,Gamma,1,1\n";
  std::ofstream(scratch.File("l.csv")) << "client,window_start_s,field,q0,q50,q100\n"
                                          "3,0,input_tokens,0,100,200\n3,0,output_tokens,1,11,21\n"
                                          "3,600,input_tokens,7,7,7\n3,600,output_tokens,8,8,8\n";
  WorkloadConfig config;
  config.servegen =
      ServeGenConfig{.arrivals_path = scratch.File("a.csv"), .lengths_path = scratch.File("l.csv")};
  std::map<std::uint32_t, int> first;
  int second = 0;
  for (const auto& request : DrawAll(config, 1)) {
    if (request.arrival < TimePoint{seconds(600)}) {
      ++first[request.tenant];
      // Comonotone: prompt = 200 u, output = 1 + 20 u, to within their rounding.
      EXPECT_NEAR(request.prompt_tokens, 10 * (request.output_tokens - 1), 6);
    } else {
      ++second;
      EXPECT_EQ(request.prompt_tokens, 7);
    }
  }
  EXPECT_EQ(first[3], 300);
  EXPECT_EQ(first[4], 60);
  EXPECT_EQ(second, 600);

  config.servegen->missing_lengths = ServeGenConfig::MissingLengths::kSkip;
  EXPECT_EQ(DrawAll(config, 1).size(), 900u);
  config.servegen->clients = {3};
  config.servegen->start = seconds(600);
  config.servegen->rate_scale = 4;
  const auto cut = DrawAll(config, 1);
  EXPECT_EQ(cut.size(), 600u);
  EXPECT_LE(cut.back().arrival, TimePoint{seconds(150)});
}

std::string ValidationError(const std::function<void(WorkloadConfig&)>& spoil) {
  WorkloadConfig config = Drawn(10, Poisson(1));
  spoil(config);
  try {
    Validate(config);
  } catch (const InputError& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "accepted";
}

TEST(ValidateTest, NamesTheFieldByItsPath) {
  using C = WorkloadConfig;
  const std::vector<std::pair<std::function<void(C&)>, std::string>> cases = {
      {[](C& c) { c.requests = 0; }, "workload.requests: "},
      {[](C& c) { c.requests = -1; }, "workload.requests: "},
      {[](C& c) { c.arrivals = {}; }, "workload.arrivals: missing"},
      {[](C& c) { c.arrivals.rate = 0; }, "workload.arrivals.rate: "},
      {[](C& c) { c.arrivals.rate = std::nan(""); }, "workload.arrivals.rate: "},
      {[](C& c) { c.arrivals = {.kind = ArrivalConfig::Kind::kGamma, .rate = 1, .cv = 0}; },
       "workload.arrivals.cv: "},
      {[](C& c) { c.arrivals = {.kind = ArrivalConfig::Kind::kClosedLoop}; },
       "workload.arrivals.users: "},
      {[](C& c) { c.arrivals = {.kind = ArrivalConfig::Kind::kRamp, .rate = 1}; },
       "workload.arrivals.ramp_s: "},
      {[](C& c) { c.shape.prompt = {}; }, "workload.shape.prompt: missing"},
      {[](C& c) { c.shape.prompt = Fixed(0); }, "workload.shape.prompt.value: "},
      {[](C& c) { c.shape.output.kind = IntegerDistribution::Kind::kLogNormal; },
       "workload.shape.output: "},
      {[](C& c) {
         c.shape.output = {.kind = IntegerDistribution::Kind::kUniform, .min = 5, .max = 4};
       },
       "workload.shape.output.max: "},
      {[](C& c) {
         c.shape.output = {.kind = IntegerDistribution::Kind::kEmpirical,
                           .probabilities = {0, 0},
                           .values = {1, 2}};
       },
       "workload.shape.output.probabilities: "},
      {[](C& c) { c.shape.tenants = {{.weight = 0}}; },
       "workload.shape.tenants.weight (their sum): "},
      {[](C& c) { c.shape.tenants = {{.prompt = Fixed(-1)}}; },
       "workload.shape.tenants[0].prompt.value: "},
      {[](C& c) { c.shape.shared_prefix.prompts = 1; }, "workload.shape.shared_prefix.tokens: "},
      {[](C& c) { c.shape.prefix_chunk_tokens = 0; }, "workload.shape.prefix_chunk_tokens: "},
      {[](C& c) { c.preset = WorkloadPreset::kCode; }, "workload.preset: "},
      {[](C& c) { c.classes.resize(1); }, "workload.classes: excludes"},
      {[](C& c) { c.max_in_flight = -1; }, "workload.max_in_flight: "},
      {[](C& c) { c.max_output.kind = MaxOutputRule::Kind::kFixed; },
       "workload.max_output.value: "},
      {[](C& c) { c.trace.emplace(); }, "workload.trace: excludes"},
      {[](C& c) {
         c.shape = {};
         c.trace.emplace();
       },
       "workload.trace.path: "},
      {[](C& c) {
         c.shape = {};
         c.servegen.emplace();
       },
       "workload.servegen.arrivals_path: "}};
  for (const auto& [spoil, message] : cases) {
    EXPECT_THAT(ValidationError(spoil), ::testing::StartsWith(message));
  }
  EXPECT_EQ(ValidationError([](C&) {}), "accepted");
}

TEST(ValidateTest, NamesAFieldOfArrivalsThatIsUnused) {
  using C = WorkloadConfig;
  const std::vector<std::pair<std::function<void(C&)>, std::string>> cases = {
      {[](C& c) { c.arrivals.cv = 2; }, "workload.arrivals.cv: unused"},
      {[](C& c) { c.arrivals.rate_to = 2; }, "workload.arrivals.rate_to: unused"},
      {[](C& c) { c.arrivals.ramp = seconds(2); }, "workload.arrivals.ramp_s: unused"},
      {[](C& c) { c.arrivals.users = 2; }, "workload.arrivals.users: unused"},
      {[](C& c) { c.arrivals.think.mean = seconds(2); }, "workload.arrivals.think: unused"},
      {[](C& c) { c.arrivals.kind = ArrivalConfig::Kind::kAllAtOnce; },
       "workload.arrivals.rate: unused"},
      {[](C& c) {
         c.shape = {};
         c.trace = TraceConfig{.path = "a.csv", .rate_scale = 2};
       },
       "workload.trace.rate_scale: unused"},
      {[](C& c) {
         c.shape = {};
         c.trace = TraceConfig{.path = "a.csv"};
         c.arrivals = {.rate = 5};
       },
       "workload.arrivals.kind: missing"}};
  for (const auto& [spoil, message] : cases) {
    EXPECT_THAT(ValidationError(spoil), ::testing::StartsWith(message));
  }
}

TEST(WorkloadSeedTest, EachPartHasASeedOfItsOwn) {
  WorkloadConfig config = Drawn(40, Poisson(5));
  config.prediction = {.kind = PredictionConfig::Kind::kLogNormal, .sigma = 0.5};
  config.shape.output = {.kind = IntegerDistribution::Kind::kUniform, .min = 1, .max = 1000};
  const auto draw = [&](const WorkloadSeeds& seeds) {
    return Serve(*MakeWorkload(config, seeds), [](std::size_t) { return Duration{0}; }).requests;
  };
  const auto equal = [](const std::vector<TracedRequest>& a, const std::vector<TracedRequest>& b,
                        auto member) { return std::ranges::equal(a, b, {}, member, member); };
  const std::vector<TracedRequest> plain = draw(1);
  for (const auto part :
       {&WorkloadSeeds::arrivals, &WorkloadSeeds::content, &WorkloadSeeds::predictions}) {
    WorkloadSeeds seeds = 1;
    seeds.*part = 2;
    const std::vector<TracedRequest> changed = draw(seeds);
    EXPECT_EQ(equal(plain, changed, &TracedRequest::arrival), part != &WorkloadSeeds::arrivals);
    EXPECT_EQ(equal(plain, changed, &TracedRequest::output_tokens),
              part != &WorkloadSeeds::content);
    EXPECT_EQ(equal(plain, changed, &TracedRequest::predicted_output_tokens),
              part == &WorkloadSeeds::arrivals);
  }
}

}  // namespace
}  // namespace twin
