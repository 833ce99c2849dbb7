#include "config/models/served_positions.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace twin {
namespace {

using Scaling = RopeConfig::Scaling;

std::int32_t Whole(double positions) {
  constexpr double kMost = std::numeric_limits<std::int32_t>::max();
  return static_cast<std::int32_t>(std::min(positions, kMost));
}

std::int32_t MostOfVllm(std::int32_t positions, const RopeConfig& rope) {
  switch (rope.scaling) {
    case Scaling::kLinear:
    case Scaling::kDynamic:
      return Whole(positions * rope.factor);
    case Scaling::kYarn:
      return Whole(rope.original_positions * rope.factor);
    case Scaling::kNone:
    case Scaling::kLlama3:
    case Scaling::kLongRope:
      break;
  }
  return positions;
}

std::int32_t MostOfSglang(std::int32_t positions, const RopeConfig& rope) {
  const bool kept = rope.names_original || rope.scaling == Scaling::kLlama3;
  return kept ? positions : Whole(positions * rope.factor);
}

std::int32_t MostOfTrtLlm(std::int32_t positions, const RopeConfig& rope) {
  const bool lengthens = rope.scaling == Scaling::kLinear || rope.scaling == Scaling::kDynamic;
  return lengthens ? Whole(std::ceil(positions * rope.factor)) : positions;
}

}  // namespace

ServedPositions FindServedPositions(const ModelConfig& model, PositionRule rule) {
  const std::int32_t positions = model.shape.max_position;
  const RopeConfig& rope = model.rope;
  std::int32_t most = positions;
  switch (rule) {
    case PositionRule::kVllm:
    case PositionRule::kVllmBefore0111:
      most = MostOfVllm(positions, rope);
      break;
    case PositionRule::kSglang:
      most = MostOfSglang(positions, rope);
      break;
    case PositionRule::kTrtLlm:
      most = MostOfTrtLlm(positions, rope);
      break;
    case PositionRule::kTgi:
      break;
  }
  const bool shortened = rule == PositionRule::kVllm && rope.scaling == Scaling::kLongRope;
  return {most, shortened ? std::min(most, Whole(rope.original_positions)) : most};
}

}  // namespace twin
