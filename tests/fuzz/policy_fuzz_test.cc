// Random values in every parameter of every policy: each config is refused, or the policy works.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "config/case_parameters.h"
#include "config/policy.bind.h"
#include "core/input_error.h"
#include "core/random.h"
#include "sched/engine.h"
#include "sched/invariant.h"
#include "sched/policy/registry.h"

namespace twin {
namespace {

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();

int Runs() {
  const char* const runs = std::getenv("TWIN_FUZZ_RUNS");
  return runs != nullptr ? std::atoi(runs) : 3000;
}

// An archive (field_binding.h) that sets every field to a random value, half of them extreme.
class RandomFields {
 public:
  explicit RandomFields(Random& random) : random_(random) {}

  void Value(const char* /*field*/, bool& value) { value = random_.UnitReal() < 0.5; }
  void Value(const char* /*field*/, std::int32_t& value) {
    constexpr std::array kExtremes = {
        std::numeric_limits<std::int32_t>::min(), -kMost, -1, 0, 1, 1024, 1025, kMost - 1, kMost};
    value = random_.UnitReal() < extreme_share_
                ? kExtremes[Index(kExtremes.size())]
                : static_cast<std::int32_t>(random_.UniformInt(1, 64));
  }
  void Value(const char* /*field*/, std::int64_t& value) {
    constexpr std::int64_t kExtremes[] = {std::numeric_limits<std::int64_t>::min(), -1, 0, 1,
                                          std::numeric_limits<std::int64_t>::max()};
    value = random_.UnitReal() < extreme_share_ ? kExtremes[Index(std::size(kExtremes))]
                                                : random_.UniformInt(0, 64);
  }
  void Value(const char* field, std::vector<std::uint32_t>& values) {
    values.resize(Index(4));
    for (std::uint32_t& value : values) {
      std::int32_t drawn = 0;
      Value(field, drawn);
      value = static_cast<std::uint32_t>(drawn);
    }
  }
  void Value(const char* /*field*/, double& value) {
    constexpr std::array kExtremes = {std::numeric_limits<double>::quiet_NaN(),
                                      std::numeric_limits<double>::infinity(),
                                      -1.0,
                                      0.0,
                                      1.0,
                                      1e300};
    value = random_.UnitReal() < extreme_share_ ? kExtremes[Index(kExtremes.size())]
                                                : random_.UnitReal();
  }
  void Value(const char* field, Duration& value) {
    double seconds = 0;
    Value(field, seconds);
    value = DurationFromSeconds(seconds);
  }
  void Value(const char* field, std::vector<double>& values) {
    values.resize(Index(3));
    for (double& value : values) Value(field, value);
  }
  template <class T>
  void Nested(const char* /*field*/, std::vector<T>& values) {
    values.resize(Index(3));
    for (T& value : values) Bind(*this, value);
  }
  template <class T>
  void Nested(const char* /*field*/, std::optional<T>& value) {
    value.reset();
    if (random_.UnitReal() < 0.5) Bind(*this, value.emplace());
  }
  template <class Words, class E>
  void Enum(const char* /*field*/, E& value) {
    const EnumNames<E> names = Words::template kNames<E>;
    value = names.begin()[Index(names.size())].value;
  }

 private:
  std::size_t Index(std::size_t size) {
    return static_cast<std::size_t>(random_.UniformInt(0, static_cast<std::int64_t>(size) - 1));
  }

  Random& random_;
  double extreme_share_ = random_.UnitReal() < 0.5 ? 0.5 : 0.05;
};

bool Accepts(const PolicyConfig& config, bool resolved) {
  const std::string name(TraitsOf(config).name);
  try {
    if (resolved) CheckRanges(config);
    Validate(config);
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), ::testing::AnyOf(::testing::StartsWith("policy." + name + "."),
                                               ::testing::StartsWith("policy: " + name + ".")));
    return false;
  }
  return true;
}

// Drafts, where the policy takes them, are half accepted. Runs three requests through the policy;
// every step takes one unit of time. An outcome is a finish, as the worlds decide it: at the output
// limit, or at the context where the policy relies on that.
void ServeThree(const PolicyConfig& config) {
  EngineConfig engine_config;
  engine_config.kv = {.block_size = 4, .blocks = 40, .host_blocks = 20};
  engine_config.kv.release_order = TraitsOf(config).release_order;
  Engine engine(engine_config, MakePolicy(config, engine_config.kv));
  const PolicyTraits& traits = engine.policy().traits();
  std::int32_t left[] = {3, 1, 5};
  for (std::uint32_t i = 0; i < 3; ++i) {
    const std::int32_t prompt = 5 + static_cast<std::int32_t>(i);
    Request request;
    request.id = RequestId{i};
    request.prompt_tokens = prompt;
    request.max_output_tokens = left[i];
    engine.Handle(RequestArrived{request});
    if (traits.outputs_end_at_context && traits.context_tokens_max > prompt) {
      left[i] = std::min(left[i], traits.context_tokens_max - prompt);
    }
  }
  TimePoint now = kTimeZero;
  int plans = 0;
  for (;;) {
    const StepPlan* const plan = engine.PlanStep(now);
    if (plan == nullptr && engine.wake_at() == kTimeNever) break;
    if (plan == nullptr) {
      now = engine.wake_at();
      continue;
    }
    std::vector<ItemOutcome> outcomes;
    for (const WorkItem& item : plan->work) {
      if (!item.emits) continue;
      std::int32_t& open = left[Index(item.request)];
      if (open <= 0) continue;  // it has ended meanwhile
      ItemOutcome outcome{.request = item.request};
      outcome.accepted_drafts = item.phase == Phase::kDecode ? item.drafts / 2 : 0;
      outcome.emitted_tokens = std::min(open, 1 + outcome.accepted_drafts);
      if (!traits.assumes_drafts) outcome.new_drafts = traits.drafts_max;
      open -= outcome.emitted_tokens;
      if (open == 0) outcome.finish = FinishReason::kLength;
      outcomes.push_back(outcome);
    }
    engine.Handle(StepFinished{plan->id, now, outcomes, {}});
    now += Duration{1};
    ASSERT_LT(++plans, 1000);
  }
  engine.CheckDrained();
}

TEST(PolicyFuzzTest, ConfigsAreRefusedOrThePolicyWorks) {
  ForEachPolicy([]<class Entry>(Entry /*entry*/) {
    Random random(1, Entry::Config::kName);
    int accepted = 0;
    for (int i = 0; i < Runs(); ++i) {
      typename Entry::Config drawn;
      RandomFields fields(random);
      Bind(fields, drawn);
      PolicyConfig config = drawn;
      SpeculationRules speculation;
      fields.Value("num_speculative_tokens", speculation.num_speculative_tokens);
      speculation.method = SpecMethod{static_cast<std::uint8_t>(i % 4)};
      if (i % 2 == 0) (void)SetSpeculation(config, speculation);
      (void)TraitsOf(config);
      SCOPED_TRACE(fmt::format("{}, run {}", Entry::Config::kName, i));
      if (!Accepts(config, false)) continue;
      ResolveContext(config, 100);
      if (!Accepts(config, true)) continue;
      try {
        ServeThree(config);
      } catch (const InputError& error) {  // what only the size of a block tells
        EXPECT_THAT(error.what(), ::testing::StartsWith("policy.sglang.chunked_prefill_size"));
        continue;
      } catch (const InvariantViolation& violation) {  // with the trace of the run
        FAIL() << violation.what();
      }
      ASSERT_FALSE(::testing::Test::HasFatalFailure()) << Entry::Config::kName << ", run " << i;
      ++accepted;
    }
    EXPECT_GT(accepted, Runs() / 50) << Entry::Config::kName;
    EXPECT_LT(accepted, Runs()) << Entry::Config::kName;
  });
}

}  // namespace
}  // namespace twin
