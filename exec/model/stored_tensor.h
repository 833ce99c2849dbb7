// A tensor as it is stored in a weights file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace twin::exec {

// The number formats of the safetensors format that hold whole bytes.
enum class StoredType : std::uint8_t {
  kF64,
  kF32,
  kF16,
  kBf16,
  kF8E4M3,
  kF8E5M2,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
};

// The name that the format uses: F64, BF16, F8_E4M3, BOOL, ...
std::string_view Name(StoredType type);
std::optional<StoredType> ParseStoredType(std::string_view name);
std::uint64_t ByteSize(StoredType type);
// All names, as "F64, F32, ...", for messages that say what is allowed.
std::string StoredTypeNames();

// A tensor in C order, little-endian. `bytes` is borrowed from the file, at any alignment.
struct StoredTensor {
  std::string name;
  StoredType type{};
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;

  [[nodiscard]] std::int64_t elements() const;
};

// The shape as text: "[8, 12]".
std::string ShapeText(std::span<const std::int64_t> shape);

// True if Widen() knows the type: F64, F32, F16, BF16.
bool IsWidenable(StoredType type);

// Writes the elements [first, first + out.size()) as fp32: exact for F32, F16 and BF16, rounded for
// F64. REQUIRES: IsWidenable(), the range is within the tensor.
void Widen(const StoredTensor& tensor, std::int64_t first, std::span<float> out);

}  // namespace twin::exec
