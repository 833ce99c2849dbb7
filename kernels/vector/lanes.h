// Vectors of TWIN_LANES floats, in GCC's vector extension: one source for every instruction set.
//
// This header is included by sources that are compiled for different instruction sets. All that it
// defines is in an unnamed namespace: otherwise the linker could pick one source's copy of an
// inline function for all, and it would run on processors without its instructions. For the same
// reason, such sources must not include standard headers that contain code. The compiler's
// intrinsics are safe, because they are always inlined.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#ifndef TWIN_LANES
#define TWIN_LANES 4
#endif

namespace twin::kernels {
namespace {

inline constexpr std::int64_t kLanes = TWIN_LANES;

using Lanes = float __attribute__((vector_size(TWIN_LANES * 4)));
using IntLanes = std::int32_t __attribute__((vector_size(TWIN_LANES * 4)));
using BitLanes = std::uint32_t __attribute__((vector_size(TWIN_LANES * 4)));
using ShortLanes = std::uint16_t __attribute__((vector_size(TWIN_LANES * 2)));
using ByteLanes = std::int8_t __attribute__((vector_size(TWIN_LANES)));
using UnsignedByteLanes = std::uint8_t __attribute__((vector_size(TWIN_LANES)));

// Vector types for addresses that are aligned only to an array's element.
using LanesAt = float __attribute__((vector_size(TWIN_LANES * 4), aligned(4), may_alias));
using BitLanesAt =
    std::uint32_t __attribute__((vector_size(TWIN_LANES * 4), aligned(2), may_alias));
using ShortLanesAt =
    std::uint16_t __attribute__((vector_size(TWIN_LANES * 2), aligned(2), may_alias));
using ByteLanesAt = std::int8_t __attribute__((vector_size(TWIN_LANES), aligned(1), may_alias));
using UnsignedByteLanesAt =
    std::uint8_t __attribute__((vector_size(TWIN_LANES), aligned(1), may_alias));

inline Lanes Load(const float* p) { return *reinterpret_cast<const LanesAt*>(p); }
inline void Store(float* p, Lanes x) { *reinterpret_cast<LanesAt*>(p) = x; }
inline Lanes Fill(float x) { return x - Lanes{}; }
inline Lanes AsFloat(BitLanes x) { return reinterpret_cast<Lanes>(x); }
inline BitLanes AsBits(Lanes x) { return reinterpret_cast<BitLanes>(x); }
inline Lanes Select(IntLanes where, Lanes yes, Lanes no) {
  const BitLanes mask = reinterpret_cast<BitLanes>(where);
  return AsFloat((AsBits(yes) & mask) | (AsBits(no) & ~mask));
}
inline Lanes Max(Lanes a, Lanes b) { return Select(a > b, a, b); }
inline Lanes Min(Lanes a, Lanes b) { return Select(a < b, a, b); }

// GCC 12 compiles __builtin_convertvector to wider elements into scalar code, so intrinsics are
// used where they exist.
inline Lanes LoadBf16(const std::uint16_t* p) {
#if TWIN_LANES == 16
  return reinterpret_cast<Lanes>(_mm512_slli_epi32(
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(p))), 16));
#elif TWIN_LANES == 8
  return reinterpret_cast<Lanes>(_mm256_slli_epi32(
      _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(p))), 16));
#else
  const ShortLanes bits = *reinterpret_cast<const ShortLanesAt*>(p);
  return AsFloat(__builtin_convertvector(bits, BitLanes) << 16);
#endif
}
inline Lanes LoadInt8(const std::int8_t* p) {
#if TWIN_LANES == 16
  return reinterpret_cast<Lanes>(_mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(p)))));
#elif TWIN_LANES == 8
  return reinterpret_cast<Lanes>(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadu_si64(p))));
#else
  const ByteLanes bytes = *reinterpret_cast<const ByteLanesAt*>(p);
  return __builtin_convertvector(__builtin_convertvector(bytes, IntLanes), Lanes);
#endif
}

// Bytes from 0 to 255 as integers, and small integers as floats.
inline BitLanes LoadBytes(const std::uint8_t* p) {
#if TWIN_LANES == 16
  return reinterpret_cast<BitLanes>(
      _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(p))));
#elif TWIN_LANES == 8
  return reinterpret_cast<BitLanes>(_mm256_cvtepu8_epi32(_mm_loadu_si64(p)));
#else
  const UnsignedByteLanes bytes = *reinterpret_cast<const UnsignedByteLanesAt*>(p);
  return __builtin_convertvector(bytes, BitLanes);
#endif
}
inline Lanes ToFloat(BitLanes x) {
  return __builtin_convertvector(reinterpret_cast<IntLanes>(x), Lanes);
}

// Loads the first `count` < kLanes elements at p; the other lanes are zero.
inline Lanes LoadPart(const float* p, std::int64_t count) {
  float part[kLanes] = {};
  for (std::int64_t i = 0; i < count; ++i) part[i] = p[i];
  return Load(part);
}
inline Lanes LoadBf16Part(const std::uint16_t* p, std::int64_t count) {
  std::uint16_t part[kLanes] = {};
  for (std::int64_t i = 0; i < count; ++i) part[i] = p[i];
  return LoadBf16(part);
}
inline void StorePart(float* p, std::int64_t count, Lanes x) {
  for (std::int64_t i = 0; i < count; ++i) p[i] = x[i];
}

// y[i] = function(x[i]) for i in 0..size-1: whole vectors first, then the rest. Map2 does the same
// for two inputs.
template <class Function>
inline void Map(const float* x, std::int64_t size, float* y, Function function) {
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) Store(y + i, function(Load(x + i)));
  if (i < size) StorePart(y + i, size - i, function(LoadPart(x + i, size - i)));
}
template <class Function>
inline void Map2(const float* a, const float* b, std::int64_t size, float* y, Function function) {
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) Store(y + i, function(Load(a + i), Load(b + i)));
  if (i < size) {
    const std::int64_t rest = size - i;
    StorePart(y + i, rest, function(LoadPart(a + i, rest), LoadPart(b + i, rest)));
  }
}

template <std::int64_t... kIndex>
struct Indices {};
template <std::int64_t kCount, std::int64_t... kIndex>
struct Count : Count<kCount - 1, kCount - 1, kIndex...> {};
template <std::int64_t... kIndex>
struct Count<0, kIndex...> {
  using Type = Indices<kIndex...>;
};
using AllLanes = typename Count<kLanes>::Type;

template <std::int64_t kDistance, std::int64_t... kIndex>
inline __attribute__((always_inline)) Lanes Turned(Lanes x, Indices<kIndex...>) {
  return __builtin_shufflevector(x, x, ((kIndex + kDistance) % kLanes)...);
}

// Reduces all lanes with `join`, starting with the two halves of the vector.
template <std::int64_t kHalf = kLanes / 2, class Function>
inline __attribute__((always_inline)) float ReduceLanes(Lanes x, Function join) {
  if constexpr (kHalf == 0) {
    return x[0];
  } else {
    return ReduceLanes<kHalf / 2>(join(x, Turned<kHalf>(x, AllLanes{})), join);
  }
}

// The sum of term(x[i]) for i in 0..size-1.
template <class Function>
inline float Sum(const float* x, std::int64_t size, Function term) {
  Lanes sums[4] = {};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= size; i += 4 * kLanes) {
    for (int j = 0; j < 4; ++j) sums[j] += term(Load(x + i + j * kLanes));
  }
  for (; i + kLanes <= size; i += kLanes) sums[0] += term(Load(x + i));
  if (i < size) {
    const Lanes rest = term(LoadPart(x + i, size - i));
    for (std::int64_t lane = 0; lane < size - i; ++lane) sums[1][lane] += rest[lane];
  }
  return ReduceLanes((sums[0] + sums[1]) + (sums[2] + sums[3]),
                     [](Lanes a, Lanes b) { return a + b; });
}

// e^x within 2 ulp for x in [-87.3, 88.7]; 0 below, e^88.7 above.
inline Lanes Exp(Lanes x) {
  const Lanes low = Fill(-87.3F);
  const Lanes clamped = Max(Min(x, Fill(88.7F)), low);
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  const Lanes shifted = clamped * Fill(1.44269504F) + Fill(12582912.0F);
  const Lanes n = shifted - Fill(12582912.0F);
  Lanes r = clamped - n * Fill(0.693359375F);
  r = r - n * Fill(-2.12194440e-4F);
  // Taylor series up to the seventh power; |r| <= ln 2 / 2.
  Lanes p = Fill(1.0F / 5040);
  p = p * r + Fill(1.0F / 720);
  p = p * r + Fill(1.0F / 120);
  p = p * r + Fill(1.0F / 24);
  p = p * r + Fill(1.0F / 6);
  p = p * r + Fill(0.5F);
  p = p * r + Fill(1.0F);
  p = p * r + Fill(1.0F);
  const BitLanes power = (AsBits(shifted) << 23) + AsBits(Fill(1.0F));
  return Select(x < low, Lanes{}, p * AsFloat(power));
}

inline Lanes Tanh(Lanes x) { return Fill(1.0F) - Fill(2.0F) / (Exp(x + x) + Fill(1.0F)); }

}  // namespace
}  // namespace twin::kernels
