#include "config/config_difference.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <cstddef>
#include <map>

#include "config/experiment.pb.h"
#include "config/text_message.h"

namespace twin {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

// Values by path. Paths stay in the order in which they were first added.
class FieldTable {
 public:
  explicit FieldTable(std::size_t configs) : configs_(configs) {}

  void Set(const std::string& path, std::size_t config, std::string value) {
    const auto [found, is_new] = positions_.try_emplace(path, fields_.size());
    if (is_new) fields_.push_back({path, std::vector<std::string>(configs_, "-")});
    fields_[found->second].values[config] = std::move(value);
  }

  [[nodiscard]] std::vector<FieldDifference> Differences() const {
    std::vector<FieldDifference> differences;
    for (const FieldDifference& field : fields_) {
      for (const std::string& value : field.values) {
        if (value == field.values.front()) continue;
        differences.push_back(field);
        break;
      }
    }
    return differences;
  }

 private:
  std::size_t configs_;
  std::vector<FieldDifference> fields_;
  std::map<std::string, std::size_t> positions_;
};

std::string ValueText(const Message& message, const FieldDescriptor& field, int index) {
  std::string text;
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    const Reflection& reflection = *message.GetReflection();
    return field.is_repeated() ? reflection.GetRepeatedString(message, &field, index)
                               : reflection.GetString(message, &field);
  }
  TextFormat::PrintFieldValueToString(message, &field, index, &text);
  return text;
}

std::string ListText(const Message& message, const FieldDescriptor& field) {
  std::string text;
  const int size = message.GetReflection()->FieldSize(message, &field);
  for (int i = 0; i < size; ++i) {
    if (i > 0) text += ", ";
    text += ValueText(message, field, i);
  }
  return fmt::format("[{}]", text);
}

void Flatten(const Message& message, const std::string& path, std::size_t config,
             FieldTable& table) {
  std::vector<const FieldDescriptor*> fields;
  const Reflection& reflection = *message.GetReflection();
  reflection.ListFields(message, &fields);
  if (fields.empty() && !path.empty()) table.Set(path, config, "{}");
  for (const FieldDescriptor* field : fields) {
    const std::string name = path.empty() ? field->name() : path + "." + field->name();
    if (field->message_type() == nullptr) {
      table.Set(name, config,
                field->is_repeated() ? ListText(message, *field) : ValueText(message, *field, -1));
    } else if (!field->is_repeated()) {
      Flatten(reflection.GetMessage(message, field), name, config, table);
    } else {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        Flatten(reflection.GetRepeatedMessage(message, field, i), fmt::format("{}[{}]", name, i),
                config, table);
      }
    }
  }
}

}  // namespace

std::vector<FieldDifference> ConfigDifferences(std::span<const ConfigText> configs) {
  FieldTable table(configs.size());
  for (std::size_t i = 0; i < configs.size(); ++i) {
    proto::Experiment experiment;
    ParseText(configs[i].text, {configs[i].name}, experiment);
    Flatten(experiment, "", i, table);
  }
  return table.Differences();
}

}  // namespace twin
