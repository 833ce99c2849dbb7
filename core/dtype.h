// Number formats of weights, activations and KV caches.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace twin {

enum class DType : std::uint8_t { kFp32, kBf16, kFp16, kFp8, kInt8 };

constexpr std::int64_t ByteSize(DType type) {
  switch (type) {
    case DType::kFp32:
      return 4;
    case DType::kBf16:
    case DType::kFp16:
      return 2;
    case DType::kFp8:
    case DType::kInt8:
      return 1;
  }
  return 0;
}

// The short name that configs and reports use: fp32, bf16, fp16, fp8, int8.
constexpr std::string_view Name(DType type) {
  switch (type) {
    case DType::kFp32:
      return "fp32";
    case DType::kBf16:
      return "bf16";
    case DType::kFp16:
      return "fp16";
    case DType::kFp8:
      return "fp8";
    case DType::kInt8:
      return "int8";
  }
  return "";
}

// Accepts the short names and those of model configs (float32, bfloat16, float16, float8_e4m3fn).
// Returns nullopt for any other name.
constexpr std::optional<DType> ParseDType(std::string_view name) {
  if (name == "fp32" || name == "float32") return DType::kFp32;
  if (name == "bf16" || name == "bfloat16") return DType::kBf16;
  if (name == "fp16" || name == "float16") return DType::kFp16;
  if (name == "fp8" || name == "float8_e4m3fn") return DType::kFp8;
  if (name == "int8") return DType::kInt8;
  return std::nullopt;
}

}  // namespace twin
