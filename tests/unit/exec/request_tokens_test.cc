// Prompts whose equality is what the workload says of it.
#include "exec/request_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace twin::exec {
namespace {

using ::testing::Each;
using ::testing::SizeIs;
using Tokens = std::vector<std::int32_t>;

TracedRequest Named(std::int32_t prompt, std::int32_t output, std::vector<std::uint64_t> chunks) {
  TracedRequest request;
  request.prompt_tokens = prompt;
  request.output_tokens = output;
  request.prefix_chunks = std::move(chunks);
  request.prefix_chunk_tokens = request.prefix_chunks.empty() ? 0 : 4;
  return request;
}

// Leading tokens that two prompts have in common.
std::ptrdiff_t Common(const Tokens& a, const Tokens& b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

constexpr std::int32_t kVocab = 50000;  // so large that equal tokens by chance are unlikely

TEST(RequestTokensTest, AreAFunctionOfSeedAndRequest) {
  const Tokens prompt = RequestTokens(1, kVocab).Open(RequestId{3}, Named(20, 1, {}));
  EXPECT_THAT(prompt, SizeIs(20));
  EXPECT_EQ(RequestTokens(1, kVocab).Open(RequestId{3}, Named(20, 9, {})), prompt);
  EXPECT_NE(RequestTokens(1, kVocab).Open(RequestId{4}, Named(20, 1, {})), prompt);
  EXPECT_NE(RequestTokens(2, kVocab).Open(RequestId{3}, Named(20, 1, {})), prompt);
}

TEST(RequestTokensTest, AreBelowTheVocabularyAndUseAllOfIt) {
  const Tokens prompt = RequestTokens(1, 7).Open(RequestId{0}, Named(500, 1, {}));
  std::vector<int> counts(7);
  for (const std::int32_t token : prompt) ++counts.at(static_cast<std::size_t>(token));
  EXPECT_THAT(counts, Each(::testing::AllOf(::testing::Gt(40), ::testing::Lt(110))));  // 71.4
}

TEST(RequestTokensTest, ChunksOfOneNameAreEqual) {
  RequestTokens tokens(1, kVocab);
  const Tokens first = tokens.Open(RequestId{0}, Named(12, 1, {7, 8, 9}));
  const Tokens second = tokens.Open(RequestId{1}, Named(12, 1, {7, 8, 10}));
  EXPECT_EQ(Common(first, second), 8);
  // The last chunk is cut short by the end of the prompt, where the next request goes on.
  const Tokens third = tokens.Open(RequestId{2}, Named(11, 1, {7, 8, 9}));
  EXPECT_EQ(Common(third, first), 11);
}

TEST(RequestTokensTest, ARequestDoesNotBeginLikeTheChunkOfItsNumber) {
  RequestTokens tokens(1, kVocab);
  const Tokens named = tokens.Open(RequestId{0}, Named(4, 1, {7}));
  EXPECT_EQ(Common(tokens.Open(RequestId{7}, Named(4, 1, {})), named), 0);
}

// Prompt of 6, output of 6, three chunks of 4: the second is half prompt, the third all output.
TEST(RequestTokensTest, AChunkThatWasGeneratedComesBackAsItWas) {
  RequestTokens tokens(1, kVocab);
  Tokens said = tokens.Open(RequestId{0}, Named(6, 6, {1, 2, 3}));
  for (const std::int32_t token : {61, 62, 63, 64, 65, 66}) {
    tokens.Append(RequestId{0}, token);
    said.push_back(token);
  }
  tokens.Close(RequestId{0});
  const Tokens next = tokens.Open(RequestId{1}, Named(14, 2, {1, 2, 3, 4}));
  EXPECT_EQ(Common(said, next), 12);
  EXPECT_THAT(next, SizeIs(14));
}

// The second request's chunk is twice as long as the one of its name that was generated: it is not
// that one, and nothing behind its four tokens is read.
TEST(RequestTokensTest, AGeneratedChunkOfAnotherSizeIsAnotherOne) {
  RequestTokens tokens(1, kVocab);
  tokens.Open(RequestId{0}, Named(4, 4, {1, 2}));
  for (int i = 0; i < 4; ++i) tokens.Append(RequestId{0}, 61);
  tokens.Close(RequestId{0});
  TracedRequest longer = Named(16, 1, {1, 2});
  longer.prefix_chunk_tokens = 8;
  EXPECT_EQ(tokens.Open(RequestId{1}, longer), RequestTokens(1, kVocab).Open(RequestId{1}, longer));
  EXPECT_EQ(tokens.Open(RequestId{2}, Named(8, 1, {1, 2}))[4], 61);
}

TEST(RequestTokensTest, AnOutputLongerThanItsNamesIsNotRemembered) {
  RequestTokens tokens(1, kVocab);
  tokens.Open(RequestId{0}, Named(4, 5, {1, 2}));
  for (int i = 0; i < 12; ++i) tokens.Append(RequestId{0}, 5);
  const Tokens next = tokens.Open(RequestId{1}, Named(12, 1, {1, 2, 3}));
  EXPECT_EQ(next[7], 5);
  EXPECT_NE(Tokens(next.begin() + 8, next.end()), Tokens(4, 5));
}

}  // namespace
}  // namespace twin::exec
