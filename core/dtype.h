// Number formats of weights, activations and KV caches.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace twin {

// kInt4 and the formats after it are for weights alone. Weights that are no matrix of a layer stay
// in 16 bits.
enum class DType : std::uint8_t {
  kFp32,
  kBf16,
  kFp16,
  kFp8,  // one scale for a matrix or a channel
  kInt8,
  kInt4,         // groups of a row have a scale and a zero point each
  kFp8Block,     // blocks of 128 x 128 have a scale of 32 bits
  kInt4Group32,  // groups of 32 have a scale of 16 bits
  kMxfp4,        // groups of 32 have a scale of 8 bits
  kNvfp4,        // groups of 16 have a scale of 8 bits
};

// True for the formats that weights alone can have.
constexpr bool IsWeightFormat(DType type) { return type >= DType::kInt4; }

// Columns of a row that share a scale and a zero point, as kInt4 is usually stored.
constexpr std::int64_t kInt4Group = 128;

// Bytes of one value. REQUIRES: not IsWeightFormat(type).
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
    default:
      return 0;
  }
}

// Bytes of a stored weight, scales included. With kInt4, a group of kInt4Group shares a scale of 16
// bits and a zero point of 4.
constexpr double BytesPerWeight(DType type) {
  constexpr double kScaleAndZero = 2.5;
  switch (type) {
    case DType::kInt4:
      return 0.5 + kScaleAndZero / kInt4Group;
    case DType::kFp8Block:
      return 1 + 4.0 / (128 * 128);
    case DType::kInt4Group32:
      return 0.5 + 2.0 / 32;
    case DType::kMxfp4:
      return 0.5 + 1.0 / 32;
    case DType::kNvfp4:
      return 0.5 + 1.0 / 16;
    default:
      return static_cast<double>(ByteSize(type));
  }
}

// Number format of embedding and LM head when the layers have weights of this format: quantisation
// leaves both in 16 bits (vLLM's fp8, int8, GPTQ and AWQ methods quantise linear layers alone).
constexpr DType EmbeddingFormat(DType weights) {
  const bool quantised =
      weights == DType::kFp8 || weights == DType::kInt8 || IsWeightFormat(weights);
  return quantised ? DType::kBf16 : weights;
}

// The short name that configs and reports use, as fp32 or fp8_block.
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
    case DType::kFp8Block:
      return "fp8_block";
    case DType::kInt4Group32:
      return "int4_group_32";
    case DType::kMxfp4:
      return "mxfp4";
    case DType::kNvfp4:
      return "nvfp4";
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
  if (name == "fp8_block") return DType::kFp8Block;
  if (name == "int4_group_32") return DType::kInt4Group32;
  if (name == "mxfp4") return DType::kMxfp4;
  if (name == "nvfp4") return DType::kNvfp4;
  return std::nullopt;
}

}  // namespace twin
