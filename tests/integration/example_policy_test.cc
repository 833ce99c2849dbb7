// The policy of docs/examples/my_policy where everything that may go wrong does.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "docs/examples/my_policy/shortest_prompt_first.h"
#include "run/record/plan_digest.h"
#include "tests/support/hostile_run.h"

namespace twin::testing {
namespace {

TEST(ExamplePolicyTest, KeepsTheInvariantsAndServesEverybodyInHostileWorlds) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    // The pools and worlds of another policy.
    HostileCase c = DrawHostileCase(PolicyModes().front(), seed);
    Random random(seed, "example");
    const std::int32_t tokens = Draw(random, 1, 24);
    const ShortestPromptFirstConfig config{.tokens_per_step = tokens,
                                           .sequences = Draw(random, 1, 8),
                                           .patience = Duration{Draw(random, 0, 60)}};
    PlanDigest digest;
    ASSERT_NO_THROW(RunHostileCase(c, std::make_unique<ShortestPromptFirst>(config), digest))
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace twin::testing
