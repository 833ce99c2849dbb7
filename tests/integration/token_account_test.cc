// Worlds and trackers count the tokens of unchanged batches once for all requests: this test counts
// every token of every request by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/random.h"
#include "core/ring_queue.h"
#include "run/record/recording_world.h"
#include "run/record/request_tracker.h"
#include "sched/engine.h"
#include "sched/policy/registry.h"
#include "sched/serve.h"
#include "sim/cost/linear_cost.h"
#include "sim/world/sim_world.h"
#include "tests/support/listed_source.h"

namespace twin {
namespace {

constexpr std::int32_t kBlockSize = 4;

struct Case {
  std::string name;
  PolicyConfig policy;
};

void PrintTo(const Case& test_case, std::ostream* out) { *out << test_case.name; }

// Long outputs and few requests at a time, so that most steps repeat the one before.
std::vector<TracedRequest> Requests(std::uint64_t seed) {
  Random random(seed, "token account");
  std::vector<TracedRequest> requests;
  TimePoint arrival = kTimeZero;
  for (int i = 0; i < 60; ++i) {
    TracedRequest request;
    arrival += DurationFromSeconds(random.Exponential(0.03));
    request.arrival = arrival;
    request.prompt_tokens = static_cast<std::int32_t>(random.UniformInt(1, 30));
    request.output_tokens = static_cast<std::int32_t>(random.UniformInt(1, 90));
    request.max_output_tokens =
        request.output_tokens + static_cast<std::int32_t>(random.UniformInt(0, 1));
    requests.push_back(request);
  }
  return requests;
}

// Keeps the times of all tokens, and compares them with what the world and the tracker say.
class TokenAccount final : public RunObserver, public RunListener {
 public:
  TokenAccount(const std::vector<TracedRequest>& requests, const PolicyTraits& traits)
      : requests_(requests), names_blocks_(traits.caches_prefixes), delivery_(traits.delivery) {}

  void OnInstant(const Instant& instant) override {
    for (const Event& event : instant.events) {
      if (const auto* finished = std::get_if<StepFinished>(&event)) {
        Take(instant.now, plans_.PopFront(), *finished);
      }
    }
  }
  void OnPlan(TimePoint /*now*/, const StepPlan& plan) override {
    plans_.PushBack(plan);
    std::vector<RequestId> batch;
    for (const WorkItem& item : plan.work) batch.push_back(item.request);
    std::ranges::sort(batch);
    repeats += !batch.empty() && batch == batch_ ? 1 : 0;
    batch_ = std::move(batch);
  }

  void OnGaps(TimePoint /*now*/, Duration /*gap*/, std::int64_t count) override { gaps += count; }
  void OnEnded(const RequestLife& life) override {
    const std::vector<TimePoint>& tokens = tokens_[life.id];
    ASSERT_EQ(life.output_tokens, static_cast<std::int32_t>(tokens.size()));
    ++ended;
    if (life.streamed) expected_gaps += life.output_tokens - 1;
    if (delivery_ == Delivery::kBatchEnd) return;
    EXPECT_EQ(life.first_token, tokens.front());
    EXPECT_EQ(life.last_token, tokens.back());
    Duration longest{0};
    for (std::size_t i = 1; i < tokens.size(); ++i) {
      longest = std::max(longest, tokens[i] - tokens[i - 1]);
    }
    EXPECT_EQ(life.longest_gap, longest);
  }

  std::int64_t repeats = 0;
  std::int64_t ended = 0;
  std::int64_t gaps = 0;
  std::int64_t expected_gaps = 0;

 private:
  void Take(TimePoint now, const StepPlan& plan, const StepFinished& finished) {
    std::vector<RequestId> ends;
    std::vector<RequestId> filled;
    for (const WorkItem& item : plan.work) {
      const TracedRequest& request = requests_.at(Index(item.request));
      std::vector<TimePoint>& tokens = tokens_[item.request];
      const auto known = [&] {
        return request.prompt_tokens + static_cast<std::int32_t>(tokens.size());
      };
      if (!item.emits || known() == request.prompt_tokens + request.output_tokens) continue;
      tokens.push_back(now);
      if (names_blocks_ && known() % kBlockSize == 0) filled.push_back(item.request);
      if (known() == request.prompt_tokens + request.output_tokens) ends.push_back(item.request);
    }
    std::vector<RequestId> said;
    for (const ItemOutcome& outcome : finished.outcomes) said.push_back(outcome.request);
    EXPECT_EQ(said, ends);
    said.clear();
    for (const BlockFilled& block : finished.filled) said.push_back(block.request);
    EXPECT_EQ(said, filled);
  }

  const std::vector<TracedRequest>& requests_;
  bool names_blocks_;
  Delivery delivery_;
  RingQueue<StepPlan> plans_;
  std::vector<RequestId> batch_;  // of the latest plan, sorted
  std::map<RequestId, std::vector<TimePoint>> tokens_;
};

class TokenAccountTest : public ::testing::TestWithParam<Case> {};

TEST_P(TokenAccountTest, WorldAndTrackerCountEveryToken) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const std::vector<TracedRequest> requests = Requests(seed);
    testing::ListedSource source(requests);
    const PolicyTraits traits = TraitsOf(GetParam().policy);
    const sim::LinearCost cost({.host_s = 1e-4,
                                .base_s = 1e-3,
                                .per_prefill_token_s = 1e-5,
                                .per_decode_context_token_s = 1e-7},
                               1);
    sim::SimWorld simulated(source, cost,
                            {.named_block_size = traits.caches_prefixes ? kBlockSize : 0});
    KvPoolConfig kv{.block_size = kBlockSize, .blocks = 200, .host_blocks = 200};
    kv.release_order = traits.release_order;
    Engine engine(EngineConfig{.kv = kv, .plans_per_instant_max = 0},
                  MakePolicy(GetParam().policy, kv));
    TokenAccount account(requests, traits);
    RequestTracker tracker({kv.blocks, traits.delivery, {}}, std::array<RunListener*, 1>{&account});
    RecordingWorld world(simulated, std::array<RunObserver*, 2>{&account, &tracker});
    Serve(engine, world);
    engine.CheckDrained();
    EXPECT_EQ(account.ended, 60);
    EXPECT_EQ(account.gaps, account.expected_gaps);
    EXPECT_GT(account.repeats, 100) << "too few steps repeat one to prove anything";
  }
}

std::vector<Case> Cases() {
  VllmV1Config ahead;
  ahead.async_scheduling = true;
  VllmV1Config caching = ahead;
  caching.enable_prefix_caching = true;
  VllmV1Config former = caching;
  former.release = VllmV1Release::k0_15_1;
  StaticConfig padded;
  padded.padded = true;
  std::vector<Case> cases = {{"vllm_v1_ahead", ahead},
                             {"vllm_v1_ahead_caching", caching},
                             {"vllm_v1_0_15_ahead_caching", former},
                             {"static_padded", padded}};
  for (const PolicyConfig& config : DefaultPolicyConfigs()) {
    cases.push_back({std::string(TraitsOf(config).name), config});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Policies, TokenAccountTest, ::testing::ValuesIn(Cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace twin
