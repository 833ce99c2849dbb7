#include "apps/serve/service/emulated_answers.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/check.h"
#include "core/hash.h"
#include "core/random.h"

namespace twin::run {
namespace {

bool Contains(const std::vector<std::int32_t>& tokens, std::int32_t token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

// The name of a sequence of tokens: its name so far, extended by the next token.
std::uint64_t Extend(std::uint64_t content, std::int32_t token) {
  return MixWords(content, static_cast<std::uint64_t>(token) + 1);
}

}  // namespace

EmulatedModel::EmulatedModel(std::vector<std::int32_t> drawn, std::int32_t vocabulary,
                             std::vector<std::int32_t> end,
                             const std::optional<IntegerDistribution>& lengths, std::uint64_t seed)
    : drawn_(std::move(drawn)), vocabulary_(vocabulary), end_(std::move(end)), seed_(seed) {
  CHECK(vocabulary >= 1);
  if (lengths) lengths_.emplace(*lengths);
}

EmulatedAnswer EmulatedModel::Plan(const GenerationRequest& request, std::uint64_t number) const {
  std::uint64_t content = seed_;
  for (const std::int32_t token : request.prompt) content = Extend(content, token);
  EmulatedAnswer answer;
  answer.seed = content;
  if (request.sampling.seed) {
    answer.seed = MixWords(content, *request.sampling.seed);
  } else if (request.sampling.temperature > 0) {
    answer.seed = MixWords(content, MixWords(HashText("unseeded"), number));
  }
  answer.tokens = DrawLength(request, answer.seed);
  if (answer.tokens < request.max_tokens) {
    answer.reason = EndReason::kStop;
    if (!end_.empty()) answer.last = end_.front();
  }
  if (request.stop_token_ids.empty()) return answer;
  for (std::int32_t i = request.min_tokens; i < answer.tokens; ++i) {
    if (!Contains(request.stop_token_ids, TokenAt(answer, i))) continue;
    return {.seed = answer.seed, .tokens = i + 1, .reason = EndReason::kStopToken};
  }
  return answer;
}

std::int32_t EmulatedModel::DrawLength(const GenerationRequest& request, std::uint64_t seed) const {
  if (!lengths_ || request.ignore_eos) return request.max_tokens;
  Random random(seed, "length");
  // The token that ends the answer comes after min_tokens tokens.
  return std::min(std::max(lengths_->Draw(random), request.min_tokens + 1), request.max_tokens);
}

std::int32_t EmulatedModel::Draw(std::uint64_t seed, std::uint64_t position) const {
  const std::uint64_t word = MixWords(seed, position);
  if (drawn_.empty()) {
    return static_cast<std::int32_t>(word % static_cast<std::uint64_t>(vocabulary_));
  }
  return drawn_[word % drawn_.size()];
}

std::int32_t EmulatedModel::TokenAt(const EmulatedAnswer& answer, std::int32_t position) const {
  if (position == answer.tokens - 1 && answer.last >= 0) return answer.last;
  return Draw(answer.seed, static_cast<std::uint64_t>(position));
}

void EmulatedModel::AddLogprobs(const EmulatedAnswer& answer, std::int32_t position,
                                std::int32_t alternatives, GeneratedToken& token) const {
  if (alternatives < 0) return;
  // A thousandth of a natural logarithm up to 1: probabilities from 1 down to 0.37.
  constexpr std::uint64_t kLevels = 1000;
  const std::uint64_t seed = MixWords(answer.seed, HashText("logprob"));
  const auto place = static_cast<std::uint64_t>(position);
  token.logprob = -static_cast<float>(MixWords(seed, place) % kLevels) / kLevels;
  if (alternatives == 0) return;
  token.alternatives.push_back({token.token, token.logprob});
  for (std::int32_t i = 1; i < alternatives; ++i) {
    const auto rank = static_cast<std::uint64_t>(i);
    token.alternatives.push_back(
        {Draw(MixWords(seed, place), rank), token.logprob - static_cast<float>(i)});
  }
}

TracedRequest EmulatedModel::Traced(const GenerationRequest& request, const EmulatedAnswer& answer,
                                    std::int32_t named_block_size) const {
  TracedRequest traced;
  traced.prompt_tokens = static_cast<std::int32_t>(request.prompt.size());
  traced.output_tokens = answer.tokens;
  traced.max_output_tokens = request.max_tokens;
  traced.priority = request.priority;
  traced.tenant = request.tenant;
  traced.session = request.session;
  traced.ignore_eos = request.ignore_eos && request.stop_token_ids.empty();
  if (named_block_size == 0) return traced;
  traced.prefix_chunk_tokens = named_block_size;
  std::uint64_t content = request.cache_salt;
  std::int32_t open = 0;
  const auto add = [&](std::int32_t token) {
    content = Extend(content, token);
    if (++open < named_block_size) return;
    open = 0;
    traced.prefix_chunks.push_back(content);
  };
  for (const std::int32_t token : request.prompt) add(token);
  for (std::int32_t i = 0; i < answer.tokens; ++i) add(TokenAt(answer, i));
  return traced;
}

}  // namespace twin::run
