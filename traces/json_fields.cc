#include "traces/json_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <utility>

#include <nlohmann/json.hpp>

#include "traces/trace_limits.h"
#include "traces/words.h"

namespace twin {
namespace {

using Json = nlohmann::json;

// JSON has no NaN and Infinity; Python writes them.
std::string WithNulls(std::string_view text) {
  constexpr std::string_view kWords[] = {"NaN", "-Infinity", "Infinity"};
  std::string result;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      result += text[i++];
      if (i == text.size()) break;
    } else if (text[i] == '"') {
      quoted = !quoted;
    }
    std::string_view word;
    for (const std::string_view known : kWords) {
      if (!quoted && text.substr(i).starts_with(known)) word = known;
    }
    if (word.empty()) {
      result += text[i];
    } else {
      result += "null";
      i += word.size() - 1;
    }
  }
  return result;
}

std::string ShownValue(const Json& value) {
  constexpr std::size_t kShown = 60;
  return value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, kShown);
}

}  // namespace

Json ParseJson(std::string_view text, const LineReader& lines, std::string_view allowed) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    Json document = Json::parse(WithNulls(text), nullptr, /*allow_exceptions=*/false);
    if (!document.is_discarded()) return document;
    const bool encoding = std::string_view(error.what()).find("UTF-8") != std::string_view::npos;
    lines.RefuseField("byte " + std::to_string(error.byte), text,
                      encoding ? "text in UTF-8" : allowed);
  } catch (const Json::exception&) {
    lines.RefuseField("line", text, "numbers in the range of double");
  }
}

std::vector<Json> ParseJsonDocuments(LineReader& lines, std::string_view allowed) {
  std::vector<Json> documents;
  std::string_view line;
  if (!lines.Next(line)) return documents;
  // A document of several lines is none without its last one.
  const bool one_per_line = !Json::parse(WithNulls(line), nullptr, false).is_discarded();
  std::string text;
  do {
    if (one_per_line) {
      documents.push_back(ParseJson(line, lines, allowed));
    } else {
      text.append(line).push_back('\n');
    }
  } while (lines.Next(line));
  if (!one_per_line) documents.push_back(ParseJson(text, lines, allowed));
  return documents;
}

std::vector<Json> RowsOfLists(const Json& document, std::initializer_list<const char*> keys,
                              const LineReader& lines) {
  const char* const first = *keys.begin();
  std::vector<Json> rows(document.at(first).size(), Json::object());
  for (const char* key : keys) {
    const auto list = document.find(key);
    if (list == document.end() || list->is_null()) continue;
    if (!list->is_array()) lines.RefuseField(key, ShownValue(*list), "a list");
    if (list->empty()) continue;
    if (list->size() != rows.size()) {
      lines.Refuse(fmt::format("{}: has {} elements; allowed: {}, as {}", key, list->size(),
                               rows.size(), first));
    }
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i][key] = (*list)[i];
  }
  return rows;
}

const Json* JsonRequestFields::Find(std::string_view path) const {
  const Json* value = &request_;
  while (true) {
    const std::size_t end = path.find('.');
    const auto member = value->is_object() ? value->find(path.substr(0, end)) : value->end();
    if (member == value->end() || member->is_null()) return nullptr;
    value = &*member;
    if (end == std::string_view::npos) return value;
    path.remove_prefix(end + 1);
  }
}

std::string JsonRequestFields::Shown(std::string_view path) const {
  const Json* value = Find(path);
  return value == nullptr ? "nothing" : ShownValue(*value);
}

void JsonRequestFields::Refuse(std::string_view path, const std::string& allowed) const {
  if (Find(path) == nullptr) {
    lines_.Refuse(std::string(path) + ": missing, or null; allowed: " + allowed);
  }
  lines_.RefuseField(path, Shown(path), allowed);
}

std::int64_t JsonRequestFields::Integer(std::string_view path, std::int64_t low,
                                        std::int64_t high) const {
  const Json* value = Find(path);
  const double number = value != nullptr && value->is_number() ? value->get<double>() : -1;
  const bool fits = number >= static_cast<double>(low) && number <= static_cast<double>(high);
  if (!fits || number != std::floor(number)) {
    Refuse(path, fmt::format("an integer from {} to {}", low, high));
  }
  return static_cast<std::int64_t>(number);
}

std::int32_t JsonRequestFields::Tokens(std::string_view path) const {
  return static_cast<std::int32_t>(Integer(path, 1, kTokensMax));
}

TimePoint JsonRequestFields::Time(std::string_view path, double unit_seconds) const {
  const Json* value = Find(path);
  const double seconds =
      value != nullptr && value->is_number() ? value->get<double>() * unit_seconds : -1;
  if (!(seconds >= 0 && seconds <= Seconds(kArrivalMax))) {
    Refuse(path, fmt::format("a number from 0 to {}", Seconds(kArrivalMax) / unit_seconds));
  }
  if (value->is_number_integer() && unit_seconds == 1e-9) {
    return TimePoint{Duration{value->get<std::int64_t>()}};
  }
  return TimePoint{DurationFromSeconds(seconds)};
}

std::optional<Duration> JsonRequestFields::Span(std::string_view path, double unit_seconds) const {
  const Json* value = Find(path);
  if (value == nullptr) return std::nullopt;
  const double seconds = value->is_number() ? value->get<double>() * unit_seconds : -1;
  if (!(seconds >= 0 && seconds <= Seconds(kArrivalMax))) {
    Refuse(path, fmt::format("a number from 0 to {}", Seconds(kArrivalMax) / unit_seconds));
  }
  return DurationFromSeconds(seconds);
}

std::vector<Duration> JsonRequestFields::Spans(std::string_view path, double unit_seconds) const {
  std::vector<Duration> spans;
  const Json* list = Find(path);
  if (list == nullptr) return spans;
  if (!list->is_array()) Refuse(path, "a list of numbers");
  for (const Json& value : *list) {
    const double seconds = value.is_number() ? value.get<double>() * unit_seconds : -1;
    if (!(seconds >= 0 && seconds <= Seconds(kArrivalMax))) {
      Refuse(path, "a list of numbers from 0 on");
    }
    spans.push_back(DurationFromSeconds(seconds));
  }
  return spans;
}

std::optional<double> JsonRequestFields::Number(std::string_view path) const {
  const Json* value = Find(path);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !(value->get<double>() >= 0)) Refuse(path, "a number from 0 on");
  return value->get<double>();
}

double JsonRequestFields::UnitFactor(std::string_view path, Quantity quantity,
                                     double otherwise) const {
  const Json* object = Find(path);
  if (object == nullptr) return otherwise;
  if (!object->is_object()) Refuse(path, "an object with a value and its unit");
  const std::string unit = fmt::format("{}.unit", path);
  const Json* name = Find(unit);
  if (name == nullptr) return otherwise;
  const auto factor =
      name->is_string() ? FactorOfUnit(quantity, name->get<std::string>()) : std::nullopt;
  if (!factor) Refuse(unit, std::string(UnitsAllowed(quantity)));
  return *factor;
}

std::optional<std::string> JsonRequestFields::Text(std::string_view path) const {
  const Json* const value = Find(path);
  if (value == nullptr) return std::nullopt;
  std::string text = value->is_string() ? value->get<std::string>() : value->dump();
  return MeansNothing(text) ? std::nullopt : std::optional(std::move(text));
}

bool JsonRequestFields::NamesError(std::string_view path) const {
  const Json* value = Find(path);
  if (value == nullptr) return false;
  return twin::NamesError(value->is_string() ? value->get<std::string>() : ShownValue(*value));
}

bool JsonRequestFields::IsZero(std::string_view path) const {
  const Json* value = Find(path);
  return value != nullptr && *value == 0;
}

}  // namespace twin
