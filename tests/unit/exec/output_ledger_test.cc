// Ends of outputs and names of blocks, token by token.
#include "exec/output_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace twin::exec {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr RequestId kFirst{0};
constexpr RequestId kSecond{1};
constexpr std::int32_t kEndToken = 9;

class OutputLedgerTest : public ::testing::Test {
 protected:
  void Open(RequestId id, std::vector<std::int32_t> prompt, const OutputEnd& end) {
    ledger_.Open(id, prompt, end, keys_);
  }
  TokenFate Take(RequestId id, std::int32_t token, bool fresh = true) {
    return ledger_.Take({.request = id, .token = token, .fresh = fresh}, outcomes_, filled_);
  }

  OutputLedger ledger_{{kEndToken}, 3};
  std::vector<BlockKey> keys_;
  std::vector<ItemOutcome> outcomes_;
  std::vector<BlockFilled> filled_;
};

TEST_F(OutputLedgerTest, TellsOnlyOfTheLastToken) {
  Open(kFirst, {1}, {.tokens_max = 2});
  EXPECT_EQ(Take(kFirst, 5), TokenFate::kTaken);
  EXPECT_THAT(outcomes_, IsEmpty());
  EXPECT_EQ(Take(kFirst, 5), TokenFate::kLast);
  EXPECT_THAT(outcomes_, ElementsAre(ItemOutcome{kFirst, 1, FinishReason::kLength}));
  EXPECT_FALSE(ledger_.contains(kFirst));
  EXPECT_EQ(Take(kFirst, 5), TokenFate::kDropped);
  EXPECT_THAT(outcomes_, SizeIs(1));
}

TEST_F(OutputLedgerTest, HeedsEndTokensWhereAskedTo) {
  Open(kFirst, {1}, {.tokens_max = 3, .heeds_end_tokens = true});
  Open(kSecond, {1}, {.tokens_max = 2, .reason = FinishReason::kStop});
  EXPECT_EQ(Take(kFirst, kEndToken), TokenFate::kLast);
  EXPECT_EQ(Take(kSecond, kEndToken), TokenFate::kTaken);
  EXPECT_EQ(Take(kSecond, 4), TokenFate::kLast);
  EXPECT_THAT(outcomes_, ElementsAre(ItemOutcome{kFirst, 1, FinishReason::kStop},
                                     ItemOutcome{kSecond, 1, FinishReason::kStop}));
}

TEST_F(OutputLedgerTest, StopTokensOfARequestEndIt) {
  constexpr std::int32_t kStop = 7;
  Open(kFirst, {1}, {.tokens_max = 9, .stop_tokens = {kStop}});
  EXPECT_EQ(Take(kFirst, kEndToken), TokenFate::kTaken);  // nobody asked it to heed these
  EXPECT_EQ(Take(kFirst, kStop), TokenFate::kLast);
  EXPECT_THAT(outcomes_, ElementsAre(ItemOutcome{kFirst, 1, FinishReason::kStop}));
}

TEST_F(OutputLedgerTest, BlocksAreEqualOnlyIfTheirSaltsAre) {
  const std::vector<std::int32_t> prompt = {1, 2, 3};
  std::vector<BlockKey> plain;
  std::vector<BlockKey> salted;
  std::vector<BlockKey> equal;
  ledger_.Open(RequestId{0}, prompt, {.tokens_max = 2}, plain);
  ledger_.Open(RequestId{1}, prompt, {.tokens_max = 2}, salted, 5);
  ledger_.Open(RequestId{2}, prompt, {.tokens_max = 2}, equal, 5);
  ASSERT_EQ(plain.size(), 1u);
  EXPECT_NE(plain, salted);
  EXPECT_EQ(salted, equal);
}

// An engine that expected one new token learns that there was none.
TEST_F(OutputLedgerTest, ARepeatedTokenIsNoNewOne) {
  Open(kFirst, {1}, {.tokens_max = 2});
  EXPECT_EQ(Take(kFirst, 5), TokenFate::kTaken);
  EXPECT_EQ(Take(kFirst, 5, /*fresh=*/false), TokenFate::kRepeated);
  EXPECT_THAT(outcomes_, ElementsAre(ItemOutcome{kFirst, 0, FinishReason::kNone}));
  EXPECT_EQ(Take(kFirst, 5), TokenFate::kLast);
}

// Blocks of three: prompt 1 2 3 | 4 5, output 6 | 7 8 6.
TEST_F(OutputLedgerTest, NamesBlocksAsTheyBecomeFull) {
  Open(kFirst, {1, 2, 3, 4, 5}, {.tokens_max = 9});
  EXPECT_THAT(keys_, SizeIs(1));
  const BlockKey first = keys_[0];
  Take(kFirst, 6);
  ASSERT_THAT(filled_, SizeIs(1));
  Take(kFirst, 7);
  Take(kFirst, 8);
  EXPECT_THAT(filled_, SizeIs(1));
  Take(kFirst, 6);
  ASSERT_THAT(filled_, SizeIs(2));
  // The same tokens as a prompt have the same names.
  Open(kSecond, {1, 2, 3, 4, 5, 6, 7, 8, 6}, {.tokens_max = 1});
  EXPECT_THAT(keys_, ElementsAre(first, filled_[0].key, filled_[1].key));
  for (const BlockKey key : keys_) EXPECT_FALSE(IsPrivate(key));
}

TEST_F(OutputLedgerTest, ANameSaysWhatIsInFrontToo) {
  Open(kFirst, {1, 2, 3, 4, 5, 6}, {.tokens_max = 1});
  const BlockKey last = keys_[1];
  Open(kSecond, {1, 2, 7, 4, 5, 6}, {.tokens_max = 1});
  EXPECT_NE(keys_[1], last);
}

TEST(OutputLedgerWithoutNamesTest, NamesNothing) {
  OutputLedger ledger({}, 0);
  std::vector<BlockKey> keys = {BlockKey{5}};
  ledger.Open(kFirst, std::vector<std::int32_t>(50, 1), {.tokens_max = 50}, keys);
  EXPECT_THAT(keys, IsEmpty());
  std::vector<ItemOutcome> outcomes;
  std::vector<BlockFilled> filled;
  for (int i = 0; i < 49; ++i) ledger.Take({.request = kFirst}, outcomes, filled);
  EXPECT_THAT(filled, IsEmpty());
  EXPECT_EQ(ledger.open(), 1U);
  ledger.Close(kFirst);
  EXPECT_EQ(ledger.open(), 0U);
}

}  // namespace
}  // namespace twin::exec
