// Scalar functions of random token sampling. They give the same bits with every compiler, on CPUs
// and on GPUs: each multiplication followed by an addition is an explicit fused multiply-add, so
// that no compiler can choose to fuse or not. Includes no other header with code; vector/lanes.h
// gives the reason.
//
// Gumbel-max (Gumbel, 1954; Maddison, Tarlow and Minka, 2014, arXiv:1411.0030): the token with the
// largest logit / temperature - log(E(token)), where the E are exponential numbers of mean 1, is a
// sample of softmax(logits / temperature). E is a function of seed, position and token. The
// vocabulary therefore need not be summed or sorted in a fixed order.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define TWIN_HOST_DEVICE static __host__ __device__ __forceinline__
#else
#define TWIN_HOST_DEVICE [[maybe_unused]] static inline __attribute__((always_inline))
#endif

namespace twin::kernels {

TWIN_HOST_DEVICE float FloatOfBits(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
TWIN_HOST_DEVICE std::uint32_t BitsOfFloat(float x) { return __builtin_bit_cast(std::uint32_t, x); }

// Integers in the same order as the floats: equal floats (also -0 and 0) give equal integers, and
// NaN the smallest.
TWIN_HOST_DEVICE std::uint32_t OrderedBits(float x) {
  const std::uint32_t bits = BitsOfFloat(x + 0.0F);
  const std::uint32_t ordered = bits ^ ((0U - (bits >> 31)) | 0x80000000U);
  return x != x ? 0 : ordered;
}

// The inverse of OrderedBits. REQUIRES: `ordered` is not that of NaN.
TWIN_HOST_DEVICE float FloatOfOrdered(std::uint32_t ordered) {
  return FloatOfBits(ordered ^ ((ordered >> 31) != 0 ? 0x80000000U : 0xFFFFFFFFU));
}

// Parameters that are common to all tokens of a row.
struct GumbelRow {
  std::uint32_t key_low = 0;
  std::uint32_t key_high = 0;
  float sharpness = 1;  // 1 / temperature
};

// `key`: MixWords(seed, position). REQUIRES: temperature > 0.
TWIN_HOST_DEVICE GumbelRow GumbelRowOf(std::uint64_t key, float temperature) {
  constexpr float kSharpest = 1e30F;  // keeps sharpness finite: 0 * infinity is NaN
  const float sharpness = 1.0F / temperature;
  return {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32),
          sharpness < kSharpest ? sharpness : kSharpest};
}

// A 32-bit hash that is a bijection (C. Wellons' lowbias32).
TWIN_HOST_DEVICE std::uint32_t Scrambled(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7FEB352DU;
  x ^= x >> 15;
  x *= 0x846CA68BU;
  return x ^ (x >> 16);
}

// log(1 + f) for f in [sqrt(1/2) - 1, sqrt(2) - 1], with a relative error of 2e-7 (the polynomial
// of Moshier's Cephes library).
TWIN_HOST_DEVICE float LogOnePlus(float f) {
  float p = 7.0376836292e-2F;
  p = __builtin_fmaf(p, f, -1.1514610310e-1F);
  p = __builtin_fmaf(p, f, 1.1676998740e-1F);
  p = __builtin_fmaf(p, f, -1.2420140846e-1F);
  p = __builtin_fmaf(p, f, 1.4249322787e-1F);
  p = __builtin_fmaf(p, f, -1.6668057665e-1F);
  p = __builtin_fmaf(p, f, 2.0000714765e-1F);
  p = __builtin_fmaf(p, f, -2.4999993993e-1F);
  p = __builtin_fmaf(p, f, 3.3333331174e-1F);
  const float square = f * f;
  return __builtin_fmaf(p, f * square, __builtin_fmaf(-0.5F, square, f));
}

// x = (1 + f) * 2^exponent, with f in the range of LogOnePlus. REQUIRES: x > 0 and normal.
struct Split {
  float f = 0;
  float exponent = 0;
};
TWIN_HOST_DEVICE Split SplitOf(float x) {
  constexpr std::uint32_t kRootHalf = 0x3F3504F3U;
  const std::uint32_t bits = BitsOfFloat(x);
  const auto exponent = static_cast<std::int32_t>(bits - kRootHalf) >> 23;
  const float reduced = FloatOfBits(bits - (static_cast<std::uint32_t>(exponent) << 23));
  return {reduced - 1.0F, static_cast<float>(exponent)};
}

constexpr float kLogTwo = 0.693147180559945F;

// An exponential number of mean 1, from 2^-32 to 22.2: -log(1 - u) with
// u = (bits / 2 + 1/2) / 2^31, where bits / 2 is rounded down. Relative error: 1e-6.
TWIN_HOST_DEVICE float ExponentialOf(std::uint32_t bits) {
  const auto below = static_cast<std::int32_t>(bits >> 1);
  const float u = __builtin_fmaf(static_cast<float>(below), 0x1p-31F, 0x1p-32F);
  const float rest = __builtin_fmaf(static_cast<float>(0x7FFFFFFF - below), 0x1p-31F, 0x1p-32F);
  const Split split = SplitOf(rest);
  const bool is_small = u < 0.29F;  // 1 - u would lose the digits of u
  const float f = is_small ? -u : split.f;
  const float exponent = is_small ? 0.0F : split.exponent;
  return -__builtin_fmaf(exponent, kLogTwo, LogOnePlus(f));
}

// The score of a token; the token with the largest score is chosen. NaN if `logit` is NaN.
TWIN_HOST_DEVICE float GumbelScore(const GumbelRow& row, float logit, std::uint32_t token) {
  const std::uint32_t bits = Scrambled(Scrambled(token ^ row.key_low) ^ row.key_high);
  const Split split = SplitOf(ExponentialOf(bits));
  const float log = __builtin_fmaf(split.exponent, kLogTwo, LogOnePlus(split.f));
  return __builtin_fmaf(logit, row.sharpness, -log);
}

// exp((logit - largest) * sharpness) in units of 2^-40; 0 for NaN. Error: 1e-6 relative (2e-6 times
// the exponent's size), plus one unit. Sums of up to 2^23 weights are exact in any order.
// REQUIRES: logit <= largest, or NaN.
TWIN_HOST_DEVICE std::uint64_t WeightOf(float logit, float largest, float sharpness) {
  constexpr float kLog2E = 1.44269504088896F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const float below = logit == largest ? 0.0F : logit - largest;
  const float scale = sharpness * kLog2E;
  if (!(below * scale > -41.0F)) return 0;
  const float whole = __builtin_fmaf(below, scale, kRound) - kRound;
  const float r = __builtin_fmaf(below, scale, -whole);
  float p = 1.535336188e-4F;  // 2^r for |r| <= 1/2, with the polynomial of Cephes
  p = __builtin_fmaf(p, r, 1.339887440e-3F);
  p = __builtin_fmaf(p, r, 9.618437357e-3F);
  p = __builtin_fmaf(p, r, 5.550332471e-2F);
  p = __builtin_fmaf(p, r, 2.402264791e-1F);
  p = __builtin_fmaf(p, r, 6.931472028e-1F);
  p = __builtin_fmaf(p, r, 1.0F);
  const std::uint32_t bits = BitsOfFloat(p);
  const std::uint64_t digits = (bits & 0x7FFFFFU) | 0x800000U;
  const int shift = static_cast<int>(bits >> 23) - 127 + static_cast<int>(whole) + 40 - 23;
  return shift >= 0 ? digits << shift : digits >> (-shift < 63 ? -shift : 63);
}

// The weight of the largest logit.
constexpr std::uint64_t kLargestWeight = std::uint64_t{1} << 40;

// Returns the smallest sum of weights that reaches `share` of `total`, clamped to 1..total.
TWIN_HOST_DEVICE std::uint64_t CeilShare(float share, std::uint64_t total) {
  const double wanted = static_cast<double>(share) * static_cast<double>(total);
  auto enough = static_cast<std::uint64_t>(wanted);
  if (static_cast<double>(enough) < wanted) ++enough;
  if (enough == 0) return 1;
  return enough < total ? enough : total;
}

}  // namespace twin::kernels
