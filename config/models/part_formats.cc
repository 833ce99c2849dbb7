#include "config/models/part_formats.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/models/excluded_modules.h"
#include "core/printable.h"

namespace twin {
namespace {

using nlohmann::json;

std::string Quoted(const json& value) {
  return Printable(value.dump(-1, ' ', true, json::error_handler_t::replace));
}

// The texts of a list; empty where it is absent.
std::vector<std::string> Texts(const ConfigFields& stored, const char* field) {
  std::vector<std::string> texts;
  const json* const list = stored.Find(field);
  if (list == nullptr) return texts;
  if (!list->is_array()) stored.Refuse(fmt::format("{} must be a list of names", field));
  for (const json& each : *list) {
    if (!each.is_string()) {
      stored.Refuse(fmt::format("{} has {}, must be a list of names", field, Quoted(each)));
    }
    texts.push_back(each.get<std::string>());
  }
  return texts;
}

// The format of a scale for blocks of the given shape.
DType BlockFormat(const ConfigFields& fields, const char* field) {
  const json* const shape = fields.Find(field);
  if (shape == nullptr) return DType::kFp8;
  if (*shape != json::array({128, 128})) {
    fields.Refuse(fmt::format("{} is {}, must be [128, 128]", field, Quoted(*shape)));
  }
  return DType::kFp8Block;
}

// compressed-tensors: the scheme of the weights of a group.
DType SchemeFormat(const ConfigFields& weights) {
  const std::int32_t bits = weights.Size("num_bits");
  const std::string type = weights.Text("type").value_or("int");
  const std::string strategy = weights.Text("strategy").value_or("");
  const std::int32_t group = weights.OptionalSize("group_size").value_or(0);
  if (bits == 8 && type == "float") {
    return strategy == "block" ? BlockFormat(weights, "block_structure") : DType::kFp8;
  }
  if (bits == 8 && type == "int") return DType::kInt8;
  if (bits == 4 && type == "float" && group == 16) return DType::kNvfp4;
  if (bits == 4 && type == "float" && group == 32) return DType::kMxfp4;
  if (bits == 4 && type == "int" && group == 32) return DType::kInt4Group32;
  if (bits == 4 && type == "int" && group == 128) return DType::kInt4;
  weights.Refuse(
      fmt::format("weights of {} bits of type '{}' in groups of {} are not modelled; "
                  "allowed: 8 bits, 4 bits of type float in groups of 16 or 32, 4 bits "
                  "of type int in groups of 32 or 128",
                  bits, Printable(type), group));
}

// The one format of all groups.
DType GroupsFormat(const ConfigFields& stored) {
  const json* const groups = stored.Find("config_groups");
  if (groups == nullptr || !groups->is_object() || groups->empty()) {
    stored.Refuse("config_groups is missing; it must have a group with weights");
  }
  std::optional<DType> format;
  for (const auto& [name, group] : groups->items()) {
    const json* const weights =
        group.is_object() && group.contains("weights") ? &group.at("weights") : nullptr;
    if (weights == nullptr || !weights->is_object()) {
      stored.Refuse(fmt::format("config_groups.{} has no weights", Printable(name)));
    }
    const DType found = SchemeFormat({*weights, "config_groups." + Printable(name)});
    if (format && *format != found) {
      stored.Refuse("config_groups have several formats; allowed: one");
    }
    format = found;
  }
  return *format;
}

// ModelOpt names formats by algorithms.
DType AlgorithmFormat(const ConfigFields& stored) {
  const std::string algorithm = stored.Text("quant_algo").value_or("unnamed");
  if (algorithm == "FP8") return DType::kFp8;
  if (algorithm == "FP8_PB_WO") return DType::kFp8Block;
  if (algorithm == "NVFP4") return DType::kNvfp4;
  if (algorithm == "MXFP4") return DType::kMxfp4;
  stored.Refuse(
      fmt::format("quant_algo '{}' is not modelled; allowed: FP8, FP8_PB_WO, NVFP4, MXFP4",
                  Printable(algorithm)));
}

PartFormats LeaveOut(const ConfigFields& stored, const char* field, DType weights,
                     const ModelSpec& shape) {
  PartFormats formats{.weights = weights};
  LeaveIn16Bits(stored, field, Texts(stored, field), shape, formats.parts, formats.note);
  return formats;
}

}  // namespace

std::optional<DType> ReadKvAlgorithm(const ConfigFields& stored, const char* field) {
  const auto algorithm = stored.Text(field);
  if (!algorithm) return std::nullopt;
  if (*algorithm == "FP8") return DType::kFp8;
  if (*algorithm == "INT8") return DType::kInt8;
  stored.Refuse(
      fmt::format("{} '{}' is not modelled; allowed: FP8, INT8", field, Printable(*algorithm)));
}

std::optional<PartFormats> ReadPartFormats(const ConfigFields& stored, const ModelSpec& shape) {
  const std::string method = stored.Text("quant_method").value_or("unnamed");
  if (method == "mxfp4") {
    if (MostExperts(shape) == 0) stored.Refuse("quant_method mxfp4 needs a mixture of experts");
    PartFormats formats{.weights = shape.weight_dtype};
    formats.parts.experts = DType::kMxfp4;
    return formats;
  }
  if (method == "fp8") {
    return LeaveOut(stored, "modules_to_not_convert", BlockFormat(stored, "weight_block_size"),
                    shape);
  }
  if (method == "compressed-tensors") {
    return LeaveOut(stored, "ignore", GroupsFormat(stored), shape);
  }
  if (method != "modelopt") return std::nullopt;
  const char* const field = stored.Has("exclude_modules") ? "exclude_modules" : "ignore";
  PartFormats formats = LeaveOut(stored, field, AlgorithmFormat(stored), shape);
  formats.kv = ReadKvAlgorithm(stored, "kv_cache_quant_algo");
  return formats;
}

}  // namespace twin
