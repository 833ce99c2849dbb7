#include "apps/serve/protocol/field_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "apps/serve/json_text.h"

namespace twin::serve {
namespace {

constexpr std::size_t kErrorsMax = 10;
constexpr std::size_t kEchoBytesMax = 200;

using Json = nlohmann::ordered_json;

bool IsInert(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_null() || ((value.is_array() || value.is_object()) && value.empty());
}

// A short text of a value, for messages. Deep values are not descended into.
std::string Echo(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  return Shortened(value.dump(-1, ' ', false, Json::error_handler_t::replace), kEchoBytesMax);
}

}  // namespace

const Json* FieldReader::Find(std::string_view name) {
  known_.emplace(name);
  const auto found = object_.find(std::string(name));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void FieldReader::Fail(ApiErrorKind kind, std::string_view name, std::string message) {
  ++error_count_;
  if (errors_.size() < kErrorsMax) {
    errors_.push_back({kind, std::move(message), prefix_ + std::string(name)});
  }
}

void FieldReader::FailType(std::string_view name, const Json& value, std::string_view allowed) {
  Fail(ApiErrorKind::kSchema, name,
       fmt::format("{}{} is {}; allowed: {}", prefix_, name, Echo(value), allowed));
}

std::optional<bool> FieldReader::Boolean(std::string_view name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  FailType(name, *value, "true, false");
  return std::nullopt;
}

std::optional<std::int64_t> FieldReader::Integer(std::string_view name, std::int64_t min,
                                                 std::int64_t max) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const auto range = [&] {
    return min == std::numeric_limits<std::int64_t>::min() ? std::string("whole numbers")
                                                           : fmt::format("{} to {}", min, max);
  };
  const double number = value->is_number() ? value->get<double>() : 0.5;
  // 2^63 as a double is out of the range of int64 already.
  if (number != std::floor(number) || std::abs(number) >= 9223372036854775808.0) {
    FailType(name, *value, range());
    return std::nullopt;
  }
  const std::int64_t whole =
      value->is_number_float() ? static_cast<std::int64_t>(number) : value->get<std::int64_t>();
  if (whole >= min && whole <= max) return whole;
  Fail(ApiErrorKind::kValue, name,
       fmt::format("{}{} is {}; allowed: {}", prefix_, name, whole, range()));
  return std::nullopt;
}

std::optional<double> FieldReader::Number(std::string_view name, double min, double max,
                                          bool open) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const std::string range = open ? fmt::format("numbers above {} and below {}", min, max)
                                 : fmt::format("{} to {}", min, max);
  if (!value->is_number()) {
    FailType(name, *value, range);
    return std::nullopt;
  }
  const double number = value->get<double>();
  if (open ? number > min && number < max : number >= min && number <= max) return number;
  Fail(ApiErrorKind::kValue, name,
       fmt::format("{}{} is {}; allowed: {}", prefix_, name, number, range));
  return std::nullopt;
}

std::optional<std::string> FieldReader::Text(std::string_view name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  FailType(name, *value, "a text");
  return std::nullopt;
}

std::vector<std::string> FieldReader::Texts(std::string_view name, std::size_t count_max) {
  const Json* value = Find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array() || !std::ranges::all_of(*value, &Json::is_string)) {
    FailType(name, *value, "a text, a list of texts");
    return {};
  }
  if (value->size() > count_max) {
    Fail(ApiErrorKind::kValue, name,
         fmt::format("{}{} has {} texts; allowed: at most {}", prefix_, name, value->size(),
                     count_max));
    return {};
  }
  return value->get<std::vector<std::string>>();
}

std::vector<std::int32_t> FieldReader::Ids(std::string_view name, std::size_t count_max) {
  const Json* value = Find(name);
  if (value == nullptr) return {};
  const auto is_id = [](const Json& id) {
    return id.is_number_unsigned() &&
           id.get<std::uint64_t>() <= std::numeric_limits<std::int32_t>::max();
  };
  if (!value->is_array() || !std::ranges::all_of(*value, is_id)) {
    FailType(name, *value, "a list of token ids");
    return {};
  }
  if (value->size() > count_max) {
    Fail(ApiErrorKind::kValue, name,
         fmt::format("{}{} has {} ids; allowed: at most {}", prefix_, name, value->size(),
                     count_max));
    return {};
  }
  return value->get<std::vector<std::int32_t>>();
}

void FieldReader::Ignore(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const Json* value = Find(name);
    if (value != nullptr && !IsInert(*value)) Warn(name);
  }
}

void FieldReader::IgnoreUnless(std::string_view name, double inert) {
  const Json* value = Find(name);
  if (value == nullptr || (value->is_number() && value->get<double>() == inert)) return;
  Warn(name);
}

void FieldReader::Refuse(std::string_view name, std::string_view why) {
  const Json* value = Find(name);
  if (value == nullptr || IsInert(*value)) return;
  Fail(ApiErrorKind::kValue, name, fmt::format("{}{}: {}", prefix_, name, why));
}

void FieldReader::IgnoreRest() {
  for (const auto& [name, value] : object_.items()) {
    if (known_.contains(name) || value.is_null()) continue;
    // The name goes into a header field and into a label.
    const bool plain = name.size() <= 64 && std::ranges::all_of(name, [](unsigned char c) {
                         return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
                       });
    Warn(plain ? name : "(other)");
  }
}

void FieldReader::Take(const FieldReader& inner) {
  error_count_ += inner.error_count_;
  for (const ApiError& error : inner.errors_) {
    if (errors_.size() < kErrorsMax) errors_.push_back(error);
  }
  warnings_.insert(warnings_.end(), inner.warnings_.begin(), inner.warnings_.end());
}

std::optional<ApiError> FieldReader::error() const {
  if (errors_.empty()) return std::nullopt;
  ApiError error = errors_.front();
  if (error_count_ == 1) return error;
  error.message = fmt::format("{} validation errors: {}", error_count_, error.message);
  for (std::size_t i = 1; i < errors_.size(); ++i) error.message += "; " + errors_[i].message;
  return error;
}

}  // namespace twin::serve
