#include "apps/serve/text/json_part.h"

#include <fmt/format.h>

#include <utility>

#include <nlohmann/json.hpp>

#include "core/input_error.h"
#include "core/printable.h"

namespace twin::text {

namespace {

constexpr std::size_t kPathBytesMax = 1024;  // known files have less than 100

}  // namespace

bool IsText(const nlohmann::ordered_json& value, std::string_view text) {
  return value.is_string() && value.get_ref<const std::string&>() == text;
}

std::string Shown(const nlohmann::json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  return Printable(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

JsonPart::JsonPart(const nlohmann::json& object, std::string file, std::string path)
    : object_(&object), file_(std::move(file)), path_(std::move(path)) {
  // Parts are read recursively: the limit bounds the stack.
  if (path_.size() > kPathBytesMax) {
    throw InputError(InputError::Kind::kData, file_,
                     fmt::format("{}... nests deeper than is allowed", path_.substr(0, 40)));
  }
  if (!object.is_object()) Refuse(fmt::format("is {}; must be an object", Shown(object)));
}

void JsonPart::Refuse(std::string_view what) const {
  throw InputError(InputError::Kind::kData, file_,
                   path_.empty() ? std::string(what) : fmt::format("{} {}", path_, what));
}

std::string JsonPart::Where(std::string_view field) const {
  return fmt::format("{}: {}", file_, PathOf(field));
}

std::string JsonPart::PathOf(std::string_view field) const {
  return path_.empty() ? std::string(field) : fmt::format("{}.{}", path_, field);
}

void JsonPart::RefuseField(std::string_view field, std::string_view allowed) const {
  const nlohmann::json* value = Find(field);
  throw InputError(InputError::Kind::kData, file_,
                   fmt::format("{} is {}; {}", PathOf(field),
                               value == nullptr ? "missing" : Shown(*value), allowed));
}

const nlohmann::json* JsonPart::Find(std::string_view field) const {
  const auto found = object_->find(field);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

const nlohmann::json& JsonPart::Required(std::string_view field) const {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) RefuseField(field, "it is required");
  return *value;
}

std::string JsonPart::Text(std::string_view field) const {
  const nlohmann::json& value = Required(field);
  if (!value.is_string()) RefuseField(field, "must be a string");
  return value.get<std::string>();
}

std::string JsonPart::Text(std::string_view field, std::string_view absent) const {
  return Has(field) ? Text(field) : std::string(absent);
}

bool JsonPart::Flag(std::string_view field, bool absent) const {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) RefuseField(field, "must be true or false");
  return value->get<bool>();
}

std::int64_t JsonPart::Integer(std::string_view field, std::int64_t highest) const {
  const nlohmann::json& value = Required(field);
  const bool fits = value.is_number_unsigned() &&
                    value.get<std::uint64_t>() <= static_cast<std::uint64_t>(highest);
  if (!fits) RefuseField(field, fmt::format("must be an integer from 0 to {}", highest));
  return value.get<std::int64_t>();
}

void JsonPart::RequireFew(std::size_t steps) const {
  if (steps > kStepsMax) Refuse(fmt::format("is one step too many; allowed are {}", kStepsMax));
}

JsonPart JsonPart::Object(std::string_view field) const {
  return {Required(field), file_, PathOf(field)};
}

std::vector<JsonPart> JsonPart::Objects(std::string_view field) const {
  const nlohmann::json& list = Required(field);
  if (!list.is_array()) RefuseField(field, "must be a list");
  std::vector<JsonPart> parts;
  for (std::size_t k = 0; k < list.size(); ++k) {
    parts.emplace_back(list[k], file_, fmt::format("{}[{}]", PathOf(field), k));
  }
  return parts;
}

void JsonPart::RequireOff(std::string_view field) const {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) return;
  const bool off = (value->is_boolean() && !value->get<bool>()) ||
                   (value->is_number() && value->get<double>() == 0) ||
                   (value->is_string() && value->get_ref<const std::string&>().empty()) ||
                   (value->is_structured() && value->empty());
  if (!off) RefuseField(field, "this is not supported, and must be absent or off");
}

}  // namespace twin::text
