#include "run/record/summary.h"

#include <cmath>
#include <ostream>
#include <utility>

#include "core/check.h"
#include "core/number_text.h"

namespace twin {
namespace {

void WriteQuoted(std::ostream& out, std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  out << '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out << '\\' << c;
    } else if (byte < 0x20) {
      out << "\\u00" << kDigits[byte >> 4] << kDigits[byte & 15];
    } else {
      out << c;
    }
  }
  out << '"';
}

void WriteValue(std::ostream& out, const SummaryValue& value) {
  if (const auto* count = std::get_if<std::int64_t>(&value)) {
    out << std::to_string(*count);
  } else if (const auto* number = std::get_if<double>(&value)) {
    out << (std::isfinite(*number) ? ShortestText(*number) : std::string("null"));
  } else {
    WriteQuoted(out, std::get<std::string>(value));
  }
}

}  // namespace

void Summary::Set(std::string_view name, SummaryValue value) {
  if (const auto found = positions_.find(name); found != positions_.end()) {
    entries_[found->second].value = std::move(value);
    return;
  }
  positions_.emplace(name, entries_.size());
  entries_.push_back({std::string(name), std::move(value)});
}

const SummaryValue* Summary::Find(std::string_view name) const {
  const auto found = positions_.find(name);
  return found == positions_.end() ? nullptr : &entries_[found->second].value;
}

double Summary::Number(std::string_view name) const {
  const SummaryValue* value = Find(name);
  CHECK(value != nullptr);
  if (const auto* count = std::get_if<std::int64_t>(value)) return static_cast<double>(*count);
  return std::get<double>(*value);
}

void WriteJson(std::ostream& out, const Summary& summary) {
  const char* separator = "{\n";
  for (const SummaryEntry& entry : summary.entries()) {
    out << separator << "  ";
    WriteQuoted(out, entry.name);
    out << ": ";
    WriteValue(out, entry.value);
    separator = ",\n";
  }
  out << (summary.entries().empty() ? "{}\n" : "\n}\n");
}

}  // namespace twin
