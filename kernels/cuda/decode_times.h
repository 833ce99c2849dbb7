// Measured times of the attention of decodes, and the fastest way to compute it.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/attention.h"

namespace twin::kernels::cuda {

// "fa2", "fa2 4 waves" (DecodeWay::waves), "fa2 whole" (keys in one piece) or "cuda_core".
std::string NameOf(const DecodeWay& way);
std::optional<DecodeWay> ParseDecodeWay(std::string_view name);

// All ways in which a shape's decodes can be computed on a device.
std::vector<DecodeWay> DecodeWaysOf(const AttentionShape& shape, int compute_capability);

// A case: `decodes` sequences with a mean length of `length` tokens (LengthsOf). `shape` is
// ShapeText().
struct DecodeCase {
  std::string shape;
  std::int64_t decodes = 0;
  std::int64_t length = 0;
  DecodeWay way;

  auto operator<=>(const DecodeCase&) const = default;
};

// A shape in one word, such as "bf16:32/8x128:16:0:ragged".
std::string ShapeText(const AttentionShape& shape);

// The length of each sequence of a case. Lengths are as unequal as in conversations, and at most
// `longest`: with equal lengths, whole keys would seem faster than they are in serving.
std::vector<std::int64_t> LengthsOf(const DecodeCase& each, std::int64_t longest);

// Microseconds by case.
using DecodeTimes = std::map<DecodeCase, double>;

struct DecodeTuning {
  std::string shape;
  std::vector<std::int64_t> decodes;  // ascending
  std::vector<std::int64_t> lengths;
  std::vector<DecodeWay> ways;
};
// Measures a case, in microseconds; nothing if memory does not suffice for it.
using DecodeTimer = std::function<std::optional<double>(const DecodeCase&)>;

// Measures what `times` does not hold. Returns true if it measured anything.
bool MeasureDecodes(const DecodeTuning& tuning, const DecodeTimer& timer, DecodeTimes& times);

// Chooses for each number of decodes the way whose times, each as a multiple of the fastest at its
// length, have the smallest sum; the first one among equals. Lengths at which not all ways were
// measured do not count; a number of decodes without any length is left out.
std::vector<MeasuredDecodes> FastestDecodes(const DecodeTuning& tuning, const DecodeTimes& times);

}  // namespace twin::kernels::cuda
