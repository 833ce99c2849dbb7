// How many attention devices feed a pool of FFN devices best.
//
// Idea: more attention devices send more tokens to the experts, whose weights are read once however
// many rows come. Until the FFN takes as long as attention, a further attention device costs its
// price and no time. Beyond, it lengthens every layer.
//
// Source: MegaScale-Infer, arXiv 2504.02263, section 4.2, for times without constant terms: there
// n = k1 E / (k3 K). With constant terms that is wrong by any factor; the form below is that of
// arXiv 2601.21351.
#pragma once

#include <algorithm>
#include <cmath>

namespace twin::sim {

// Times of a micro-batch in one layer, in seconds: attention takes attention_token_s x tokens
// + attention_s on a device, and the FFN ffn_row_s x rows + ffn_s, where each of `experts` devices
// gets tokens x attention devices x experts_per_token / experts rows. All of them > 0 but for
// attention_s, ffn_s and link_s.
struct FfnPoolTerms {
  double attention_token_s = 0;
  double attention_s = 0;
  double ffn_row_s = 0;
  double ffn_s = 0;
  double link_s = 0;  // of the busier direction
  double tokens = 0;  // of a micro-batch and attention device
  double experts = 0;
  double experts_per_token = 0;
  double attention_cost = 1;  // of a device
  double ffn_cost = 1;

  [[nodiscard]] double AttentionSeconds() const { return attention_token_s * tokens + attention_s; }
  // That one attention device adds to the FFN's time.
  [[nodiscard]] double AddedSeconds() const {
    return ffn_row_s * experts_per_token * tokens / experts;
  }
};

// Tokens a second and unit of cost with `devices` attention devices, if the pipe is full.
inline double ThroughputPerCost(const FfnPoolTerms& pool, double devices) {
  const double ffn = pool.AddedSeconds() * devices + pool.ffn_s;
  const double slowest = std::max({pool.AttentionSeconds(), ffn, pool.link_s});
  return devices * pool.tokens /
         (slowest * (devices * pool.attention_cost + pool.experts * pool.ffn_cost));
}

// The number, not rounded and at least 1, at which ThroughputPerCost() is largest.
inline double BestAttentionDevices(const FfnPoolTerms& pool) {
  const double added = pool.AddedSeconds();
  const double balanced = (std::max(pool.AttentionSeconds(), pool.link_s) - pool.ffn_s) / added;
  const double spread =
      std::sqrt(pool.ffn_s * pool.experts * pool.ffn_cost / (added * pool.attention_cost));
  return std::max({balanced, spread, 1.0});
}

}  // namespace twin::sim
