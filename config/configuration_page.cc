#include "config/configuration_page.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "config/default_messages.h"
#include "config/experiment.pb.h"
#include "config/options.pb.h"
#include "config/recommend.pb.h"
#include "config/schema_comments.h"
#include "config/study.pb.h"
#include "core/letter_case.h"

namespace twin {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr const char* kHead = R"(# Configuration

<!-- Generated from config/*.proto by `twinserve doctor --list configuration`. Do not edit. -->

An experiment file is a message in the [text format][1] of Protocol Buffers with the fields of
[Experiment](#experiment); a study file, for `twinserve sweep`, has those of [Study](#study), and a
request, for `twinserve recommend`, those of [RecommendationRequest](#recommendationrequest).
Unknown fields and values are errors. Relative paths start at the folder of the file that they are
written in.

On the command line, `--set PATH=VALUE` changes a field, `--set PATH+=VALUE` appends to a list, and
`--unset PATH` clears a field. PATH joins field names with dots; `name[i]` is an element of a list.

A default of - means that the field is unset unless given. A field that is set although what it
needs does not hold has no effect, and is warned of. `a=x|y` means one of these values, `!a` unset,
false or 0, and `/a` a field of the experiment.

[1]: https://protobuf.dev/reference/protobuf/textformat-spec/
)";

// Default values of fields, from messages that have all their defaults set.
class Defaults {
 public:
  Defaults() : messages_(DefaultMessages()) {}

  // nullopt if the field has no default.
  [[nodiscard]] std::optional<std::string> Of(const FieldDescriptor& field) const {
    const auto found = messages_.find(field.containing_type()->full_name());
    if (found == messages_.end() || field.is_repeated() || field.message_type() != nullptr) {
      return std::nullopt;
    }
    const Message& message = *found->second;
    if (!message.GetReflection()->HasField(message, &field)) return std::nullopt;
    std::string text;
    google::protobuf::TextFormat::PrintFieldValueToString(message, &field, -1, &text);
    return text;
  }

 private:
  std::map<std::string, std::unique_ptr<Message>> messages_;
};

// The values of an enumeration, without former names.
std::vector<const EnumValueDescriptor*> ValuesOf(const EnumDescriptor& type) {
  std::vector<const EnumValueDescriptor*> values;
  for (int i = 0; i < type.value_count(); ++i) {
    const EnumValueDescriptor* value = type.value(i);
    if (type.FindValueByNumber(value->number()) == value) values.push_back(value);
  }
  return values;
}

std::vector<const FieldDescriptor*> FieldsOf(const Descriptor& message) {
  std::vector<const FieldDescriptor*> fields;
  for (int i = 0; i < message.field_count(); ++i) {
    if (!message.field(i)->options().deprecated()) fields.push_back(message.field(i));
  }
  return fields;
}

std::string Anchor(const Descriptor& message) {
  std::string anchor = message.name();
  std::ranges::transform(anchor, anchor.begin(), LowerCase);
  return anchor;
}

std::string ScalarType(const FieldDescriptor& field) {
  const proto::Rule& rule = field.options().GetExtension(proto::rule);
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "bool";
    case FieldDescriptor::CPPTYPE_STRING:
      return rule.file() ? "path" : rule.name_or_file() ? "name or path" : "text";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "number";
    case FieldDescriptor::CPPTYPE_ENUM:
      return "word";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return fmt::format("[{}](#{})", field.message_type()->name(), Anchor(*field.message_type()));
    default:
      return "integer";
  }
}

std::string TypeOf(const FieldDescriptor& field) {
  return (field.is_repeated() ? "list of " : "") + ScalarType(field);
}

std::string AllowedOf(const FieldDescriptor& field) {
  if (field.enum_type() != nullptr) {
    std::string words;
    for (const EnumValueDescriptor* value : ValuesOf(*field.enum_type())) {
      words += fmt::format("{}`{}`", words.empty() ? "" : ", ", value->name());
    }
    return words;
  }
  const proto::Rule& rule = field.options().GetExtension(proto::rule);
  const bool from = rule.has_min() || rule.has_above();
  std::string low =
      rule.has_above() ? fmt::format("above {}", rule.above()) : fmt::format("from {}", rule.min());
  if (rule.has_min() && rule.has_max() && rule.min() == rule.max()) {
    return fmt::format("{}", rule.min());
  }
  if (from && rule.has_max()) return fmt::format("{} to {}", low, rule.max());
  if (rule.has_above()) return low;
  return from ? fmt::format("{} or more", rule.min()) : "";
}

// The meaning of a field, and the other fields with which it is read.
std::string WithNeeds(std::string meaning, const FieldDescriptor& field) {
  std::string needs;
  for (const std::string& need : field.options().GetExtension(proto::rule).needs()) {
    needs += fmt::format("{}`{}`", needs.empty() ? "" : " and ", need);
  }
  if (needs.empty()) return meaning;
  if (meaning.empty()) return fmt::format("Needs {}.", needs);
  return fmt::format("{}{} {}.", meaning, meaning.ends_with('.') ? " Needs" : "; needs", needs);
}

std::string Cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) {
    text.replace(at, 1, "\\|");
  }
  return text;
}

class PageWriter {
 public:
  std::string Write() {
    page_ = kHead;
    std::vector<const Descriptor*> messages;
    Collect(*proto::Experiment::descriptor(), messages);
    Collect(*proto::Study::descriptor(), messages);
    Collect(*proto::RecommendationRequest::descriptor(), messages);
    for (const Descriptor* message : messages) WriteMessage(*message);
    return page_;
  }

 private:
  // Collects message types depth first, in the order of the fields, each once.
  static void Collect(const Descriptor& message, std::vector<const Descriptor*>& messages) {
    if (std::find(messages.begin(), messages.end(), &message) != messages.end()) return;
    messages.push_back(&message);
    for (const FieldDescriptor* field : FieldsOf(message)) {
      if (field->message_type() != nullptr) Collect(*field->message_type(), messages);
    }
  }

  void WriteMessage(const Descriptor& message) {
    page_ += fmt::format("\n## {}\n\n", message.name());
    if (const std::string text = comments_.Of(message); !text.empty()) page_ += text + "\n";
    const std::vector<const FieldDescriptor*> fields = FieldsOf(message);
    if (fields.empty()) return;
    page_ += "\n| field | type | default | allowed | meaning |\n|---|---|---|---|---|\n";
    for (const FieldDescriptor* field : fields) {
      const std::optional<std::string> value = defaults_.Of(*field);
      page_ += fmt::format("| `{}` | {} | {} | {} | {} |\n", field->name(), TypeOf(*field),
                           value ? fmt::format("`{}`", *value) : "-", AllowedOf(*field),
                           Cell(WithNeeds(comments_.Of(*field), *field)));
    }
    for (const FieldDescriptor* field : fields) {
      if (field->enum_type() != nullptr) WriteValues(*field);
    }
  }

  // Lists the values of an enumeration that have a comment.
  void WriteValues(const FieldDescriptor& field) {
    std::string lines;
    for (const EnumValueDescriptor* value : ValuesOf(*field.enum_type())) {
      const std::string text = comments_.Of(*value);
      if (!text.empty())
        lines += fmt::format("- `{}: {}`: {}\n", field.name(), value->name(), text);
    }
    if (!lines.empty()) page_ += "\n" + lines;
  }

  SchemaComments comments_;
  Defaults defaults_;
  std::string page_;
};

std::vector<ConfigurationChoice> ChoicesOf(const Descriptor& oneof_message) {
  const SchemaComments comments;
  const Defaults defaults;
  std::vector<ConfigurationChoice> choices;
  for (const FieldDescriptor* member : FieldsOf(oneof_message)) {
    ConfigurationChoice choice{.name = member->name(),
                               .description = comments.Of(*member->message_type()),
                               .defaults = {}};
    for (const FieldDescriptor* field : FieldsOf(*member->message_type())) {
      if (const std::optional<std::string> value = defaults.Of(*field)) {
        choice.defaults.push_back(fmt::format("{}: {}", field->name(), *value));
      }
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

}  // namespace

std::string ConfigurationPage() { return PageWriter().Write(); }

std::vector<ConfigurationChoice> PolicyChoices() { return ChoicesOf(*proto::Policy::descriptor()); }

std::vector<ConfigurationChoice> CostChoices() { return ChoicesOf(*proto::Cost::descriptor()); }

}  // namespace twin
