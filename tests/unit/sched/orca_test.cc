// Expected values: golden cases orca-ex2a, orca-ex2b and sarathi_orca-ex2c
// (tests/golden/README.md).
#include "sched/policy/orca.h"

#include <gtest/gtest.h>

#include "tests/support/decided_trace.h"

namespace twin::testing {
namespace {

TEST(OrcaPolicyTest, ReservesToCompletionAndMixesPhases) {
  OrcaConfig config;
  config.max_bs = 3;
  EXPECT_EQ(Decided(config, {.block_size = 1, .blocks = 24},
                    {{1, 6, 3}, {1, 5, 2}, {1, 4, 3}, {2, 4, 2}}),
            "it1: A:P6 B:P5 C:P4 | free=1\n"
            "it2: A:D1 B:D1 C:D1 | free=1 | fin=[B] | freeA=8\n"
            "it3: A:D1 C:D1 D:P4 | free=2 | fin=[A,C] | freeA=18\n"
            "it4: D:D1 | free=18 | fin=[D] | freeA=24\n");
}

// Two batches in flight; the slots that the text counts as reserved are 26 - free.
TEST(OrcaPolicyTest, FillsThePipelineWithDisjointBatches) {
  OrcaConfig config;
  config.n_workers = 2;
  config.max_bs = 2;
  EXPECT_EQ(Decided(config, {.block_size = 1, .blocks = 26, .depth = 2},
                    {{1, 6, 3}, {1, 5, 2}, {1, 3, 3}, {2, 4, 2}}),
            "it1: A:P6 B:P5 | free=10\n"
            "it2: C:P3 | free=4\n"
            "it3: A:D1 B:D1 | free=4\n"
            "it4: C:D1 | free=4 | fin=[B] | freeA=11\n"
            "it5: A:D1 D:P4 | free=5\n"
            "it6: C:D1 | free=5 | fin=[A] | freeA=14\n"
            "it7: D:D1 | free=14 | fin=[C] | freeA=20\n"
            "it8: | free=20 | fin=[D] | freeA=26\n");
}

TEST(OrcaPolicyTest, ReservesTheModelsContextWhereAskedTo) {
  OrcaConfig config;
  config.reservation = OrcaConfig::Reservation::kModel;
  config.max_bs = 4;
  config.max_model_len = 16;
  EXPECT_EQ(Decided(config, {.blocks = 12}, {{1, 6, 4}, {1, 10, 3}, {2, 3, 3}, {3, 5, 2}}),
            "it1: A:P6 B:P10 | free=4\n"
            "it2: A:D1 B:D1 C:P3 | free=0\n"
            "it3: A:D1 B:D1 C:D1 | free=0 | fin=[B] | freeA=4\n"
            "it4: A:D1 C:D1 D:P5 | free=0 | fin=[A,C] | freeA=8\n"
            "it5: D:D1 | free=8 | fin=[D] | freeA=12\n");
}

}  // namespace
}  // namespace twin::testing
