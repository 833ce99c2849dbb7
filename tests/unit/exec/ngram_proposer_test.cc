#include "exec/ngram_proposer.h"

#include <gtest/gtest.h>

#include <vector>

namespace twin::exec {
namespace {

std::vector<std::int32_t> Proposed(const std::vector<std::int32_t>& tokens, std::int32_t drafts_max,
                                   const NgramConfig& config) {
  const std::span<const std::int32_t> drafts = ProposeByNgram(tokens, drafts_max, config);
  return {drafts.begin(), drafts.end()};
}

using Tokens = std::vector<std::int32_t>;

TEST(NgramProposerTest, TheLongestMatchWins) {
  // Of the latest 1 2 3: 2 3 occurs first at place 1, 1 2 3 at place 5.
  const Tokens tokens = {9, 2, 3, 7, 9, 1, 2, 3, 4, 5, 1, 2, 3};
  EXPECT_EQ(Proposed(tokens, 2, {.lookup_min = 1, .lookup_max = 3}), (Tokens{4, 5}));
  EXPECT_EQ(Proposed(tokens, 2, {.lookup_min = 1, .lookup_max = 2}), (Tokens{7, 9}));
}

TEST(NgramProposerTest, TheFirstOccurrenceWins) {
  EXPECT_EQ(Proposed({1, 2, 1, 3, 1}, 1, {.lookup_min = 1, .lookup_max = 1}), (Tokens{2}));
}

// The occurrence may overlap the latest tokens, and what follows it ends with the text.
TEST(NgramProposerTest, ARepeatedTokenFollowsItself) {
  EXPECT_EQ(Proposed({4, 4, 4}, 5, {.lookup_min = 1, .lookup_max = 2}), (Tokens{4}));
}

TEST(NgramProposerTest, ProposesNothingWhereNothingOccursAgain) {
  EXPECT_EQ(Proposed({1, 2, 3}, 5, {.lookup_min = 1, .lookup_max = 2}), Tokens{});
  EXPECT_EQ(Proposed({1, 2, 3, 2, 3}, 5, {.lookup_min = 3, .lookup_max = 4}), Tokens{});
  EXPECT_EQ(Proposed({1}, 5, {.lookup_min = 1, .lookup_max = 1}), Tokens{});
}

}  // namespace
}  // namespace twin::exec
