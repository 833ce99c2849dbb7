#include "exec/model/stored_tensor.h"

#include <array>
#include <bit>
#include <cstring>

#include "core/check.h"

namespace twin::exec {
namespace {

static_assert(std::endian::native == std::endian::little, "weights files are little-endian");

struct TypeRow {
  StoredType type;
  std::string_view name;
  std::uint64_t bytes;
};

constexpr std::array kTypes = {
    TypeRow{StoredType::kF64, "F64", 8},        TypeRow{StoredType::kF32, "F32", 4},
    TypeRow{StoredType::kF16, "F16", 2},        TypeRow{StoredType::kBf16, "BF16", 2},
    TypeRow{StoredType::kF8E4M3, "F8_E4M3", 1}, TypeRow{StoredType::kF8E5M2, "F8_E5M2", 1},
    TypeRow{StoredType::kI64, "I64", 8},        TypeRow{StoredType::kI32, "I32", 4},
    TypeRow{StoredType::kI16, "I16", 2},        TypeRow{StoredType::kI8, "I8", 1},
    TypeRow{StoredType::kU64, "U64", 8},        TypeRow{StoredType::kU32, "U32", 4},
    TypeRow{StoredType::kU16, "U16", 2},        TypeRow{StoredType::kU8, "U8", 1},
    TypeRow{StoredType::kBool, "BOOL", 1},
};

const TypeRow& Row(StoredType type) {
  const TypeRow& row = kTypes[static_cast<std::size_t>(type)];
  CHECK(row.type == type);
  return row;
}

float FromBf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Converts IEEE 754 binary16.
float FromF16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1Fu;
  const std::uint32_t fraction = bits & 0x3FFu;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1.0p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  constexpr std::uint32_t kRebias = 127 - 15;
  const std::uint32_t wide_exponent = exponent == 0x1Fu ? 0xFFu : exponent + kRebias;
  return std::bit_cast<float>(sign | wide_exponent << 23 | fraction << 13);
}

template <class Stored, class Convert>
void WidenAs(std::span<const std::byte> bytes, std::span<float> out, const Convert& convert) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Stored value;
    std::memcpy(&value, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    out[i] = convert(value);
  }
}

}  // namespace

std::string_view Name(StoredType type) { return Row(type).name; }

std::uint64_t ByteSize(StoredType type) { return Row(type).bytes; }

std::optional<StoredType> ParseStoredType(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

std::string StoredTypeNames() {
  std::string names;
  for (const TypeRow& row : kTypes) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

std::int64_t StoredTensor::elements() const {
  return static_cast<std::int64_t>(bytes.size() / ByteSize(type));
}

std::string ShapeText(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
}

bool IsWidenable(StoredType type) {
  return type == StoredType::kF64 || type == StoredType::kF32 || type == StoredType::kF16 ||
         type == StoredType::kBf16;
}

void Widen(const StoredTensor& tensor, std::int64_t first, std::span<float> out) {
  CHECK(IsWidenable(tensor.type));
  CHECK(first >= 0 && first + static_cast<std::int64_t>(out.size()) <= tensor.elements());
  const std::uint64_t size = ByteSize(tensor.type);
  const auto bytes =
      tensor.bytes.subspan(static_cast<std::size_t>(first) * size, out.size() * size);
  switch (tensor.type) {
    case StoredType::kF64:
      return WidenAs<double>(bytes, out, [](double v) { return static_cast<float>(v); });
    case StoredType::kF32:
      if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
      return;
    case StoredType::kF16:
      return WidenAs<std::uint16_t>(bytes, out, FromF16);
    default:
      return WidenAs<std::uint16_t>(bytes, out, FromBf16);
  }
}

}  // namespace twin::exec
