// Answers of an emulated model: tokens from a seeded generator, up to an end that is drawn, too.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "apps/serve/service/service.h"
#include "core/traced_request.h"
#include "traces/integer_sampler.h"

namespace twin::run {

// An answer, before its first step.
struct EmulatedAnswer {
  std::uint64_t seed = 0;
  std::int32_t tokens = 0;
  EndReason reason = EndReason::kLength;
  std::int32_t last = -1;  // the token that ends it, if that is not drawn
};

// A value: safe to use from several threads.
class EmulatedModel {
 public:
  // `drawn`: the tokens that answers consist of; empty: all below `vocabulary`. `end`: tokens that
  // end an answer; the first one is told where `lengths` ends it. lengths: nullopt = max_tokens.
  EmulatedModel(std::vector<std::int32_t> drawn, std::int32_t vocabulary,
                std::vector<std::int32_t> end, const std::optional<IntegerDistribution>& lengths,
                std::uint64_t seed);

  // A greedy request (temperature 0) is answered by its prompt alone, another one by its seed, or
  // by `number` if it has none.
  [[nodiscard]] EmulatedAnswer Plan(const GenerationRequest& request, std::uint64_t number) const;

  // The token at `position` of the answer, from 0.
  [[nodiscard]] std::int32_t TokenAt(const EmulatedAnswer& answer, std::int32_t position) const;

  // The natural logarithm of a made-up probability, and made-up alternatives with lower ones.
  void AddLogprobs(const EmulatedAnswer& answer, std::int32_t position, std::int32_t alternatives,
                   GeneratedToken& token) const;

  // The request as a simulated world takes it. With a block size other than 0, its content is named
  // block by block: blocks of requests are equal if their tokens, and all before them, and the
  // cache salts are.
  [[nodiscard]] TracedRequest Traced(const GenerationRequest& request, const EmulatedAnswer& answer,
                                     std::int32_t named_block_size) const;

 private:
  [[nodiscard]] std::int32_t Draw(std::uint64_t seed, std::uint64_t position) const;
  [[nodiscard]] std::int32_t DrawLength(const GenerationRequest& request, std::uint64_t seed) const;

  std::vector<std::int32_t> drawn_;
  std::int32_t vocabulary_;
  std::vector<std::int32_t> end_;
  std::optional<IntegerSampler> lengths_;
  std::uint64_t seed_;
};

}  // namespace twin::run
