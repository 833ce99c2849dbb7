#include "config/models/served_positions.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string_view>

#include "config/models/families.h"
#include "core/check.h"

namespace twin {
namespace {

using Scaling = RopeConfig::Scaling;

std::int32_t Whole(double positions) {
  constexpr double kMost = std::numeric_limits<std::int32_t>::max();
  return static_cast<std::int32_t>(std::min(positions, kMost));
}

// The least of all keys, unless model_max_length is there.
std::optional<std::int32_t> LeastOrModelMaxLength(const StoredPositions& stored) {
  if (const auto replacing = stored.Find("model_max_length")) return replacing;
  std::optional<std::int32_t> least;
  for (const auto& value : stored.values) {
    if (value) least = std::min(*value, least.value_or(*value));
  }
  return least;
}

std::optional<std::int32_t> FirstOf(const StoredPositions& stored,
                                    std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (const auto value = stored.Find(key)) return value;
  }
  return std::nullopt;
}

std::optional<std::int32_t> StoredFor(PositionRule rule, const StoredPositions& stored) {
  switch (rule) {
    case PositionRule::kVllm:
    case PositionRule::kVllmBefore0111:
      return LeastOrModelMaxLength(stored);
    case PositionRule::kSglang:
      return FirstOf(stored, {"max_sequence_length", "seq_length", "max_seq_len",
                              "model_max_length", "max_position_embeddings"});
    case PositionRule::kTgi:
      return FirstOf(stored, {"max_position_embeddings", "max_seq_len", "n_positions"});
    case PositionRule::kTrtLlm:
      return stored.Find("max_position_embeddings");
  }
  return std::nullopt;
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

bool HasScaledPositions(const ModelConfig& model) {
  const ModelFamily* const family = FindModelFamily(model.model_type);
  return family != nullptr && family->positions_are_scaled;
}

}  // namespace

std::optional<std::int32_t> StoredPositions::Find(std::string_view key) const {
  const auto* const found = std::ranges::find(kKeys, key);
  CHECK(found != kKeys.end());
  return values[static_cast<std::size_t>(found - kKeys.begin())];
}

ServedPositions FindServedPositions(const ModelConfig& model, PositionRule rule) {
  const std::int32_t positions =
      StoredFor(rule, model.positions).value_or(model.shape.max_position);
  const RopeConfig& rope = model.rope;
  std::int32_t most = positions;
  switch (rule) {
    case PositionRule::kVllm:
    case PositionRule::kVllmBefore0111:
      if (!HasScaledPositions(model)) most = MostOfVllm(positions, rope);
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
