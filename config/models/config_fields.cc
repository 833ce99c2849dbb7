#include "config/models/config_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "core/input_error.h"
#include "core/printable.h"

namespace twin {
namespace {

using Json = nlohmann::json;

bool IsIntegerWithin(const Json& value, std::int64_t low, std::int64_t high) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned()) {
    return value.get<std::uint64_t>() <= static_cast<std::uint64_t>(high) &&
           value.get<std::int64_t>() >= low;
  }
  return value.get<std::int64_t>() >= low && value.get<std::int64_t>() <= high;
}

constexpr std::int64_t kSizeMost = std::numeric_limits<std::int32_t>::max();

}  // namespace

void ConfigFields::Refuse(const std::string& what) const {
  throw InputError(InputError::Kind::kData, where_, what);
}

void ConfigFields::RefuseField(const char* field, const Json& value,
                               const std::string& allowed) const {
  Refuse(fmt::format("{} is {}, must be {}", field,
                     Printable(value.dump(-1, ' ', true, Json::error_handler_t::replace)),
                     allowed));
}

const Json* ConfigFields::Find(const char* field) const {
  const auto found = object_.find(field);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool ConfigFields::IsNull(const char* field) const {
  const auto found = object_.find(field);
  return found != object_.end() && found->is_null();
}

std::int32_t ConfigFields::LayerCount(const char* field) const {
  constexpr std::int32_t kLayersMost = 4096;
  const std::int32_t layers = Size(field);
  if (layers > kLayersMost) {
    Refuse(fmt::format("{} is {}, must be at most {}", field, layers, kLayersMost));
  }
  return layers;
}

std::optional<std::int32_t> ConfigFields::OptionalSize(const char* field,
                                                       std::int32_t lowest) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::nullopt;
  if (!IsIntegerWithin(*value, lowest, kSizeMost)) {
    RefuseField(field, *value, fmt::format("an integer from {} to 2^31 - 1", lowest));
  }
  return value->get<std::int32_t>();
}

std::int32_t ConfigFields::Size(const char* field) const {
  const auto value = OptionalSize(field);
  if (!value) Refuse(fmt::format("{} is missing, must be a positive integer", field));
  return *value;
}

std::optional<double> ConfigFields::OptionalPositive(const char* field) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !(value->get<double>() > 0) || !std::isfinite(value->get<double>())) {
    RefuseField(field, *value, "a number above 0");
  }
  return value->get<double>();
}

double ConfigFields::Positive(const char* field) const {
  const auto value = OptionalPositive(field);
  if (!value) Refuse(fmt::format("{} is missing, must be a number above 0", field));
  return *value;
}

bool ConfigFields::Flag(const char* field, bool absent) const {
  const Json* value = Find(field);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) RefuseField(field, *value, "true or false");
  return value->get<bool>();
}

std::optional<std::string> ConfigFields::Text(const char* field) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) RefuseField(field, *value, "a string");
  return value->get<std::string>();
}

std::optional<ConfigFields> ConfigFields::Object(const char* field) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) RefuseField(field, *value, "an object");
  return ConfigFields(*value, where_ + ": " + field);
}

std::vector<ConfigFields> ConfigFields::Objects(const char* field) const {
  const Json* value = Find(field);
  if (value == nullptr) return {};
  std::vector<ConfigFields> objects;
  if (!value->is_array()) RefuseField(field, *value, "a list of objects");
  for (const Json& each : *value) {
    const std::string where = fmt::format("{}: {}[{}]", where_, field, objects.size());
    objects.emplace_back(each, where);
    if (!each.is_object()) objects.back().Refuse("must be an object, is " + ValueText(each));
  }
  return objects;
}

void ConfigFields::RefuseUnknown(std::string_view field, const Json& value) const {
  Refuse(fmt::format(
      "{} is {}, which is not known for this model_type; allowed: leave it out, null or false",
      Printable(std::string(field)), ValueText(value)));
}

void ConfigFields::RefuseOthers(std::initializer_list<std::string_view> known) const {
  for (const auto& [field, value] : object_.items()) {
    const bool is_known = std::ranges::find(known, field) != known.end();
    if (!is_known && !IsNeutral(value)) RefuseUnknown(field, value);
  }
}

std::vector<std::int32_t> ConfigFields::TokenIds(const char* field) const {
  const Json* value = Find(field);
  if (value == nullptr) return {};
  std::vector<std::int32_t> ids;
  const auto add = [&](const Json& id) {
    if (!IsIntegerWithin(id, 0, kSizeMost)) {
      RefuseField(field, *value, "a token id or a list of token ids");
    }
    ids.push_back(id.get<std::int32_t>());
  };
  if (value->is_array()) {
    for (const Json& id : *value) add(id);
  } else {
    add(*value);
  }
  return ids;
}

std::string ValueText(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  constexpr std::size_t kMost = 60;
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return Printable(text);
}

bool IsNeutral(const Json& value) {
  return value.is_null() || value == false || value == 0 || value == "" ||
         (value.is_structured() && value.empty());
}

}  // namespace twin
