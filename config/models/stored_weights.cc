#include "config/models/stored_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "config/models/part_formats.h"
#include "core/input_error.h"
#include "core/printable.h"

namespace twin {
namespace {

std::optional<DType> ReadStoredType(const ConfigFields& config) {
  const char* const field = config.Has("dtype") ? "dtype" : "torch_dtype";
  const auto name = config.Text(field);
  if (!name) return std::nullopt;
  const auto type = ParseDType(*name);
  if (type != DType::kFp32 && type != DType::kBf16 && type != DType::kFp16) {
    config.Refuse(
        fmt::format("{} is '{}', must be float32, bfloat16 or float16", field, Printable(*name)));
  }
  return type;
}

std::string ReadQuantization(const ConfigFields& config) {
  const auto quantization = config.Object("quantization_config");
  if (!quantization) return "";
  return Printable(quantization->Text("quant_method").value_or("unnamed"));
}

// Format of the KV cache if the checkpoint has scales for it: servers then store keys and values in
// this format, whatever the format of the weights.
std::optional<DType> ReadKvFormat(const ConfigFields& config) {
  const auto quantization = config.Object("quantization_config");
  if (!quantization) return std::nullopt;
  const auto* const stored = quantization->Find("kv_cache_scheme");
  if (stored != nullptr && stored->is_string()) {
    return ReadKvAlgorithm(*quantization, "kv_cache_scheme");
  }
  const auto scheme = quantization->Object("kv_cache_scheme");
  if (!scheme) return std::nullopt;
  const std::string type = scheme->Text("type").value_or("float");
  const bool known = scheme->Size("num_bits") == 8 && (type == "float" || type == "int");
  if (!known) {
    scheme->Refuse(
        fmt::format("kv_cache_scheme of {} bits of type '{}' is not modelled, must be 8 "
                    "bits of type float or int",
                    scheme->Size("num_bits"), Printable(type)));
  }
  return type == "float" ? DType::kFp8 : DType::kInt8;
}

// True for the methods whose weights of 4 bits can be read.
bool HasInt4Layouts(std::string_view method) { return method == "gptq" || method == "awq"; }

std::optional<std::int32_t> ReadBits(const ConfigFields& config) {
  const auto stored = config.Object("quantization_config");
  if (!stored || !HasInt4Layouts(stored->Text("quant_method").value_or(""))) return std::nullopt;
  return stored->OptionalSize("bits");
}

// Layout of weights in 4 bits; nothing if the weights are stored otherwise.
std::optional<Int4Layout> ReadInt4Layout(const ConfigFields& config) {
  if (ReadBits(config) != 4) return std::nullopt;
  const auto stored = config.Object("quantization_config");
  const std::string method = stored->Text("quant_method").value_or("");
  Int4Layout layout;
  layout.group = std::max(stored->OptionalSize("group_size", -1).value_or(layout.group), 0);
  if (method == "awq") {
    layout.kind = Int4Layout::Kind::kAwq;
    const std::string version = stored->Text("version").value_or("gemm");
    return version == "gemm" || version == "GEMM" ? std::optional(layout) : std::nullopt;
  }
  const std::string format = stored->Text("checkpoint_format").value_or("gptq");
  if (format != "gptq" && format != "gptq_v2") return std::nullopt;
  layout.zero_minus_one = format == "gptq";
  layout.symmetric = stored->Flag("sym", false);
  return layout;
}

}  // namespace

void ReadStoredWeights(const ConfigFields& outer, const std::optional<ConfigFields>& nested,
                       ModelConfig& model) {
  auto stored = nested ? ReadStoredType(*nested) : std::nullopt;
  if (!stored) stored = ReadStoredType(outer);
  model.shape.weight_dtype = model.shape.kv_dtype = stored.value_or(DType::kFp32);
  model.quantization = ReadQuantization(outer);
  if (model.quantization.empty() && nested) model.quantization = ReadQuantization(*nested);
  const ConfigFields& quantized = nested && !outer.Has("quantization_config") ? *nested : outer;
  model.shape.kv_dtype = ReadKvFormat(quantized).value_or(model.shape.kv_dtype);
  model.quantization_bits = ReadBits(quantized);
  model.int4 = ReadInt4Layout(quantized);
  if (model.int4) model.shape.weight_dtype = DType::kInt4;
  const auto stored_as = quantized.Object("quantization_config");
  std::optional<PartFormats> formats;
  try {
    if (stored_as) formats = ReadPartFormats(*stored_as, model.shape);
  } catch (const InputError& problem) {
    // An experiment may choose the nearest format.
    model.format_problem = problem.what();
  }
  model.knows_formats = model.quantization.empty() || model.int4 || formats;
  if (!formats) return;
  model.shape.weight_dtype = formats->weights;
  model.shape.formats = formats->parts;
  model.format_note = formats->note;
  if (formats->kv) model.shape.kv_dtype = *formats->kv;
}

std::string QuantizationText(const ModelConfig& model) {
  std::string text = "method " + model.quantization;
  if (model.quantization_bits) text += fmt::format(" with {} bits", *model.quantization_bits);
  return text;
}

}  // namespace twin
