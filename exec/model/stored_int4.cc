#include "exec/model/stored_int4.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "core/check.h"
#include "core/input_error.h"

namespace twin::exec {
namespace {

constexpr std::int64_t kPerNumber = 8;  // weights or zero points of 4 bits in an int32
constexpr std::int64_t kPanel = kernels::WeightView::kPanelRows;
constexpr std::int64_t kGroupUnit = kernels::WeightView::kGroup;
constexpr std::uint8_t kMiddle = 8;
constexpr std::array kParts = {".qweight", ".qzeros", ".scales", ".g_idx"};
constexpr std::string_view kWeight = ".weight";

std::string BaseOf(const std::string& weight) {
  CHECK(weight.ends_with(kWeight));
  return weight.substr(0, weight.size() - kWeight.size());
}

std::uint32_t NumberAt(const StoredTensor& tensor, std::int64_t index) {
  std::uint32_t number;
  std::memcpy(&number, tensor.bytes.data() + static_cast<std::size_t>(index) * sizeof number,
              sizeof number);
  return number;
}

std::uint8_t FourBits(std::uint32_t number, std::int64_t place) {
  return static_cast<std::uint8_t>(number >> (4 * place) & 0xFU);
}

// The place of a neighbour, 0 to 7, in a number.
std::int64_t PlaceOf(Int4Layout::Kind kind, std::int64_t neighbour) {
  constexpr std::array<std::int64_t, 8> kAwqPlaces = {0, 4, 1, 5, 2, 6, 3, 7};
  return kind == Int4Layout::Kind::kAwq ? kAwqPlaces[static_cast<std::size_t>(neighbour)]
                                        : neighbour;
}

std::int64_t CeilDivide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

bool IsStoredInInt4(const Checkpoint& checkpoint, const std::string& weight) {
  return weight.ends_with(kWeight) && checkpoint.Find(BaseOf(weight) + ".qweight") != nullptr;
}

bool StandsForWeight(const std::string& name, const std::vector<std::string>& weights) {
  return std::any_of(kParts.begin(), kParts.end(), [&](std::string_view part) {
    if (!name.ends_with(part)) return false;
    const std::string weight = name.substr(0, name.size() - part.size()) + std::string(kWeight);
    return std::binary_search(weights.begin(), weights.end(), weight);
  });
}

StoredInt4::StoredInt4(const Checkpoint& checkpoint, const Int4Layout& layout, const Part& part)
    : where_(checkpoint.path()),
      layout_(layout),
      stored_rows_(part.rows),
      stored_columns_(part.columns),
      part_rows_(part.taken_rows),
      part_columns_(part.taken_columns),
      group_(layout.group > 0 ? std::int64_t{layout.group}
                              : CeilDivide(part.columns, kGroupUnit) * kGroupUnit) {
  const std::string base = BaseOf(part.weight);
  const auto refuse = [&](const std::string& what) {
    throw InputError(InputError::Kind::kData, where_, what);
  };
  if (group_ % kGroupUnit != 0) {
    refuse(
        fmt::format("groups of {} weights are not computed; allowed: multiples of {}, and all "
                    "weights of a row (-1)",
                    group_, kGroupUnit));
  }
  const bool gptq = layout.kind == Int4Layout::Kind::kGptq;
  if (part.rows % kPerNumber != 0 || (gptq && part.columns % kPerNumber != 0)) {
    refuse(
        fmt::format("tensor '{}.qweight': a layer of {} outputs and {} inputs cannot be stored "
                    "in 4 bits, eight to a number",
                    base, part.rows, part.columns));
  }
  const std::int64_t groups = CeilDivide(part.columns, group_);
  const auto packed_shape = gptq ? std::vector{part.columns / kPerNumber, part.rows}
                                 : std::vector{part.columns, part.rows / kPerNumber};
  weights_ = &Require(checkpoint, base + ".qweight", packed_shape);
  zeros_ = &Require(checkpoint, base + ".qzeros", {groups, part.rows / kPerNumber});
  scales_ = &Require(checkpoint, base + ".scales", {groups, part.rows});
  if (gptq) ReadOrder(checkpoint, base + ".g_idx");
  CheckColumns(part);
}

const StoredTensor& StoredInt4::Require(const Checkpoint& checkpoint, const std::string& name,
                                        const std::vector<std::int64_t>& shape) const {
  const auto refuse = [&](const std::string& what) {
    throw InputError(InputError::Kind::kData, where_, fmt::format("tensor '{}' {}", name, what));
  };
  const StoredTensor* const tensor = checkpoint.Find(name);
  if (tensor == nullptr) refuse("is missing beside other tensors of its layer");
  const bool scales = name.ends_with(".scales");
  const bool right_type =
      scales ? tensor->type == StoredType::kF16 || tensor->type == StoredType::kBf16
             : tensor->type == StoredType::kI32;
  if (!right_type) {
    refuse(fmt::format("has dtype {}, must be {}", Name(tensor->type),
                       scales ? "F16 or BF16" : "I32"));
  }
  if (tensor->shape != shape) {
    refuse(fmt::format("has shape {}, expected by config.json is {}", ShapeText(tensor->shape),
                       ShapeText(shape)));
  }
  return *tensor;
}

void StoredInt4::ReadOrder(const Checkpoint& checkpoint, const std::string& name) {
  if (checkpoint.Find(name) == nullptr) return;
  const StoredTensor& tensor = Require(checkpoint, name, {stored_columns_});
  const auto refuse = [&](const std::string& what) {
    throw InputError(InputError::Kind::kData, where_, fmt::format("tensor '{}' {}", name, what));
  };
  const std::int64_t groups = CeilDivide(stored_columns_, group_);
  std::vector<std::int64_t> group_of(static_cast<std::size_t>(stored_columns_));
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(groups));
  bool in_order = true;
  for (std::int64_t k = 0; k < stored_columns_; ++k) {
    const std::int64_t number{static_cast<std::int32_t>(NumberAt(tensor, k))};
    if (number < 0 || number >= groups) {
      refuse(fmt::format("holds {} at {}, must be 0 to {}", number, k, groups - 1));
    }
    group_of[static_cast<std::size_t>(k)] = number;
    ++sizes[static_cast<std::size_t>(number)];
    in_order = in_order && number == k / group_;
  }
  if (in_order) return;
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t expected = std::min(group_, stored_columns_ - g * group_);
    if (sizes[static_cast<std::size_t>(g)] == expected) continue;
    refuse(fmt::format("gives group {} {} inputs, must be {}", g,
                       sizes[static_cast<std::size_t>(g)], expected));
  }
  order_.resize(static_cast<std::size_t>(stored_columns_));
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(), [&](std::int32_t a, std::int32_t b) {
    return group_of[static_cast<std::size_t>(a)] < group_of[static_cast<std::size_t>(b)];
  });
}

void StoredInt4::CheckColumns(const Part& part) const {
  const IndexRange& taken = part.taken_columns;
  if (taken == IndexRange{0, part.columns}) return;
  const auto refuse = [&](const std::string& what) {
    throw InputError(InputError::Kind::kData, where_,
                     fmt::format("tensor '{}': {}", part.weight, what));
  };
  if (!order_.empty()) {
    refuse(
        "its groups are not in order (g_idx), so that ranks cannot share its inputs; allowed: "
        "tensor parallelism of 1");
  }
  const bool ends = taken.first + taken.count == part.columns;
  if (taken.first % group_ != 0 || (taken.count % group_ != 0 && !ends)) {
    refuse(
        fmt::format("a rank's share of its inputs, {} from {} on, cuts a group of {}; allowed: "
                    "a smaller tensor parallelism",
                    taken.count, taken.first, group_));
  }
}

std::uint8_t StoredInt4::WeightAt(std::int64_t row, std::int64_t column) const {
  const std::int64_t output = part_rows_.first + row;
  const std::int64_t input = InputOf(column);
  if (layout_.kind == Int4Layout::Kind::kGptq) {
    const std::uint32_t number = NumberAt(*weights_, input / kPerNumber * stored_rows_ + output);
    return FourBits(number, input % kPerNumber);
  }
  const std::uint32_t number = NumberAt(*weights_, (input * stored_rows_ + output) / kPerNumber);
  return FourBits(number, PlaceOf(layout_.kind, output % kPerNumber));
}

std::uint8_t StoredInt4::ZeroAt(std::int64_t row, std::int64_t group) const {
  const std::int64_t output = part_rows_.first + row;
  const std::int64_t of_group = part_columns_.first / group_ + group;
  const std::uint32_t number = NumberAt(*zeros_, (of_group * stored_rows_ + output) / kPerNumber);
  const std::uint8_t stored = FourBits(number, PlaceOf(layout_.kind, output % kPerNumber));
  if (layout_.symmetric && (stored == kMiddle || stored == kMiddle - 1)) return kMiddle;
  return static_cast<std::uint8_t>(stored + (layout_.zero_minus_one ? 1 : 0));
}

void StoredInt4::CopyWeights(std::int64_t first, std::int64_t count, std::uint8_t* q) const {
  CHECK(first >= 0 && count >= 1 && count <= kPanel && first + count <= rows());
  for (std::int64_t k = 0; k < part_columns_.count; ++k) {
    for (std::int64_t i = 0; i < count; ++i) q[k * kPanel + i] = WeightAt(first + i, k);
  }
}

void StoredInt4::CopyGroups(std::int64_t first, std::int64_t count, float* scales,
                            std::uint8_t* zeros) const {
  CHECK(first >= 0 && count >= 1 && count <= kPanel && first + count <= rows());
  const std::int64_t first_group = part_columns_.first / group_;
  for (std::int64_t g = 0; g < groups(); ++g) {
    const std::int64_t at = (first_group + g) * stored_rows_ + part_rows_.first + first;
    Widen(*scales_, at, std::span(scales + g * kPanel, static_cast<std::size_t>(count)));
    for (std::int64_t i = 0; i < count; ++i) zeros[g * kPanel + i] = ZeroAt(first + i, g);
  }
}

void StoredInt4::CopyRow(std::int64_t row, float* out) const {
  for (std::int64_t g = 0; g < groups(); ++g) {
    const std::int64_t of_group = part_columns_.first / group_ + g;
    float scale = 0;
    Widen(*scales_, of_group * stored_rows_ + part_rows_.first + row, std::span(&scale, 1));
    const std::int32_t zero = ZeroAt(row, g);
    const std::int64_t end = std::min((g + 1) * group_, part_columns_.count);
    for (std::int64_t k = g * group_; k < end; ++k) {
      const float w = static_cast<float>(WeightAt(row, k) - zero) * scale;
      out[InputOf(k) - part_columns_.first] = w;
    }
  }
}

}  // namespace twin::exec
