// Number formats of weights, activations and KV caches.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace twin {

// kInt4 is for weights alone: groups of a row have a scale and a zero point each. Weights that are
// no matrix of a layer stay in 16 bits.
enum class DType : std::uint8_t { kFp32, kBf16, kFp16, kFp8, kInt8, kInt4 };

// Columns of a row that share a scale and a zero point, as kInt4 is usually stored.
constexpr std::int64_t kInt4Group = 128;

// Bytes of one value. REQUIRES: not kInt4, where two values share a byte.
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
    case DType::kInt4:
      break;
  }
  return 0;
}

// Bytes of a stored weight. With kInt4, a group of kInt4Group shares a scale of 16 bits and a zero
// point of 4.
constexpr double BytesPerWeight(DType type) {
  constexpr double kScaleAndZero = 2.5;
  if (type == DType::kInt4) return 0.5 + kScaleAndZero / kInt4Group;
  return static_cast<double>(ByteSize(type));
}

// Number format of embedding and LM head when the layers have weights of this format: quantisation
// leaves both in 16 bits (vLLM's fp8, int8, GPTQ and AWQ methods quantise linear layers alone).
constexpr DType EmbeddingFormat(DType weights) {
  const bool quantised =
      weights == DType::kFp8 || weights == DType::kInt8 || weights == DType::kInt4;
  return quantised ? DType::kBf16 : weights;
}

// The short name that configs and reports use: fp32, bf16, fp16, fp8, int8, int4.
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
    case DType::kInt4:
      return "int4";
  }
  return "";
}

// Accepts the short names and the names in model configs (float32, bfloat16, float16,
// float8_e4m3fn). Returns nullopt for any other name.
constexpr std::optional<DType> ParseDType(std::string_view name) {
  if (name == "fp32" || name == "float32") return DType::kFp32;
  if (name == "bf16" || name == "bfloat16") return DType::kBf16;
  if (name == "fp16" || name == "float16") return DType::kFp16;
  if (name == "fp8" || name == "float8_e4m3fn") return DType::kFp8;
  if (name == "int8") return DType::kInt8;
  if (name == "int4") return DType::kInt4;
  return std::nullopt;
}

}  // namespace twin
