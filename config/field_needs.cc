#include "config/field_needs.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "config/names.h"
#include "config/options.pb.h"
#include "core/check.h"

namespace twin {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::vector<std::string_view> SplitAt(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + separator.size());
  }
}

double Number(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  CHECK(error == std::errc{} && end == text.data() + text.size());
  return number;
}

struct Condition {
  std::string_view path;
  std::string_view sign;    // "", "!", "=", "!=" or ">"
  std::string_view values;  // after the sign
};

Condition Parsed(std::string_view text) {
  if (text.starts_with('!')) return {text.substr(1), "!", ""};
  for (const std::string_view sign : {"!=", "=", ">"}) {
    const std::size_t at = text.find(sign);
    if (at != std::string_view::npos) {
      return {text.substr(0, at), sign, text.substr(at + sign.size())};
    }
  }
  return {text, "", ""};
}

// The field that a path names. `holder` is null if a message on the way is not set.
struct FieldPlace {
  const FieldDescriptor* field = nullptr;
  const Message* holder = nullptr;

  [[nodiscard]] bool set() const {
    if (holder == nullptr) return false;
    const Reflection& reflection = *holder->GetReflection();
    return field->is_repeated() ? reflection.FieldSize(*holder, field) > 0
                                : reflection.HasField(*holder, field);
  }

  // The value as text format writes it; the default of the type if the field is not set.
  [[nodiscard]] std::string Text() const {
    if (set()) {
      std::string text;
      google::protobuf::TextFormat::PrintFieldValueToString(*holder, field, -1, &text);
      return text;
    }
    if (field->enum_type() != nullptr) return field->default_value_enum()->name();
    return field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL ? "false" : "0";
  }
};

FieldPlace Find(const Message& start, std::string_view path) {
  FieldPlace place;
  const google::protobuf::Descriptor* type = start.GetDescriptor();
  const Message* holder = &start;
  for (const std::string_view name : SplitAt(path, ".")) {
    if (place.field != nullptr) {
      type = place.field->message_type();
      CHECK(type != nullptr);
      holder = place.set() ? &holder->GetReflection()->GetMessage(*holder, place.field) : nullptr;
    }
    place = {type->FindFieldByName(std::string(name)), holder};
    CHECK(place.field != nullptr);
  }
  return place;
}

bool IsOn(const FieldPlace& place) {
  if (!place.set()) return false;
  if (place.field->is_repeated() || place.field->message_type() != nullptr) return true;
  const std::string text = place.Text();
  return text != "false" && text != "0" && text != "\"\"";
}

// The experiment, the message that holds a field, and the path of that message.
struct Context {
  const Message& root;
  const Message& holder;
  const std::string& path;
};

bool Holds(const Condition& condition, const Context& context) {
  const bool whole = condition.path.starts_with('/');
  const FieldPlace place =
      whole ? Find(context.root, condition.path.substr(1)) : Find(context.holder, condition.path);
  if (condition.sign.empty()) return IsOn(place);
  if (condition.sign == "!") return !IsOn(place);
  if (condition.sign == ">") return Number(place.Text()) > Number(condition.values);
  const std::vector<std::string_view> values = SplitAt(condition.values, "|");
  const bool is_one = std::ranges::find(values, place.Text()) != values.end();
  return is_one == (condition.sign == "=");
}

std::string Described(const Condition& condition, const std::string& path) {
  const std::string field = condition.path.starts_with('/') ? std::string(condition.path.substr(1))
                                                            : FieldPath(path, condition.path);
  if (condition.sign == "!") return fmt::format("no {}", field);
  std::string values(condition.values);
  for (std::size_t at = values.find('|'); at != std::string::npos; at = values.find('|')) {
    values.replace(at, 1, " or ");
  }
  if (condition.sign == "=") return fmt::format("{}: {}", field, values);
  if (condition.sign == "!=") return fmt::format("{} other than {}", field, values);
  return condition.sign == ">" ? fmt::format("{} above {}", field, values) : field;
}

// The unmet needs of a field, in words; empty if all are met.
std::string UnmetOf(const FieldDescriptor& field, const Context& context) {
  std::string unmet;
  for (const std::string& need : field.options().GetExtension(proto::rule).needs()) {
    bool met = false;
    std::string words;
    for (const std::string_view text : SplitAt(need, " or ")) {
      const Condition condition = Parsed(text);
      met = met || Holds(condition, context);
      words += fmt::format("{}{}", words.empty() ? "" : " or ", Described(condition, context.path));
    }
    if (!met) unmet += fmt::format("{}{}", unmet.empty() ? "" : ", and ", words);
  }
  return unmet;
}

class Search {
 public:
  explicit Search(const Message& resolved) : root_(resolved) {}

  void Visit(const Message& asked, const Message& resolved, const std::string& path) {
    std::vector<const FieldDescriptor*> fields;
    asked.GetReflection()->ListFields(asked, &fields);
    for (const FieldDescriptor* field : fields) {
      const std::string here = FieldPath(path, field->name());
      std::string need = UnmetOf(*field, {root_, resolved, path});
      if (!need.empty()) {
        found_.push_back({here, std::move(need)});
      } else if (field->message_type() != nullptr) {
        VisitBelow(asked, resolved, *field, here);
      }
    }
  }

  [[nodiscard]] std::vector<UnmetNeed> found() && { return std::move(found_); }

 private:
  void VisitBelow(const Message& asked, const Message& resolved, const FieldDescriptor& field,
                  const std::string& path) {
    const Reflection& reflection = *asked.GetReflection();
    if (!field.is_repeated()) {
      if (!reflection.HasField(resolved, &field)) return;
      Visit(reflection.GetMessage(asked, &field), reflection.GetMessage(resolved, &field), path);
      return;
    }
    const int size =
        std::min(reflection.FieldSize(asked, &field), reflection.FieldSize(resolved, &field));
    for (int i = 0; i < size; ++i) {
      Visit(reflection.GetRepeatedMessage(asked, &field, i),
            reflection.GetRepeatedMessage(resolved, &field, i), fmt::format("{}[{}]", path, i));
    }
  }

  const Message& root_;
  std::vector<UnmetNeed> found_;
};

}  // namespace

std::vector<UnmetNeed> UnmetNeeds(const Message& asked, const Message& resolved) {
  Search search(resolved);
  search.Visit(asked, resolved, "");
  return std::move(search).found();
}

}  // namespace twin
