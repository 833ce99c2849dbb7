#include "config/overlay.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "config/names.h"
#include "config/options.pb.h"
#include "core/check.h"
#include "core/input_error.h"
#include "core/number_text.h"

namespace twin {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::vector<const FieldDescriptor*> SetFields(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  return fields;
}

const proto::Rule& RuleOf(const FieldDescriptor& field) {
  return field.options().GetExtension(proto::rule);
}

// Number of values of a set field; 1 for singular fields.
int Count(const Message& message, const FieldDescriptor& field) {
  return field.is_repeated() ? message.GetReflection()->FieldSize(message, &field) : 1;
}

const Message& Child(const Message& message, const FieldDescriptor& field, int i) {
  const Reflection& reflection = *message.GetReflection();
  return field.is_repeated() ? reflection.GetRepeatedMessage(message, &field, i)
                             : reflection.GetMessage(message, &field);
}

Message& MutableChild(Message& message, const FieldDescriptor& field, int i) {
  const Reflection& reflection = *message.GetReflection();
  return field.is_repeated() ? *reflection.MutableRepeatedMessage(&message, &field, i)
                             : *reflection.MutableMessage(&message, &field);
}

std::string Text(const Message& message, const FieldDescriptor& field, int i) {
  const Reflection& reflection = *message.GetReflection();
  return field.is_repeated() ? reflection.GetRepeatedString(message, &field, i)
                             : reflection.GetString(message, &field);
}

// The value as a double, if the field is a number. Exact up to 2^53, far beyond every rule.
std::optional<double> Number(const Message& message, const FieldDescriptor& field, int i) {
  const Reflection& r = *message.GetReflection();
  const bool repeated = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return repeated ? r.GetRepeatedInt32(message, &field, i) : r.GetInt32(message, &field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return repeated ? r.GetRepeatedUInt32(message, &field, i) : r.GetUInt32(message, &field);
    case FieldDescriptor::CPPTYPE_INT64:
      return static_cast<double>(repeated ? r.GetRepeatedInt64(message, &field, i)
                                          : r.GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return static_cast<double>(repeated ? r.GetRepeatedUInt64(message, &field, i)
                                          : r.GetUInt64(message, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return repeated ? r.GetRepeatedDouble(message, &field, i) : r.GetDouble(message, &field);
    default:
      return std::nullopt;
  }
}

int EnumNumber(const Message& message, const FieldDescriptor& field, int i) {
  const Reflection& reflection = *message.GetReflection();
  return field.is_repeated() ? reflection.GetRepeatedEnumValue(message, &field, i)
                             : reflection.GetEnumValue(message, &field);
}

std::string Shown(double number) {
  if (!std::isfinite(number)) return std::to_string(number);
  // Whole numbers in digits: 100000000, not 1e+08.
  const bool whole = std::trunc(number) == number && std::abs(number) < 1e15;
  return whole ? std::to_string(static_cast<std::int64_t>(number)) : ShortestText(number);
}

// The part of a rule that a number breaks, as text; empty if it breaks none.
std::string Broken(double number, const proto::Rule& rule) {
  if (!std::isfinite(number)) return "must be finite";
  if (rule.has_min() && number < rule.min()) return "must be at least " + Shown(rule.min());
  if (rule.has_above() && number <= rule.above()) return "must be above " + Shown(rule.above());
  if (rule.has_max() && number > rule.max()) return "must be at most " + Shown(rule.max());
  return "";
}

bool HasControlCharacter(const std::string& text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return true;
  }
  return false;
}

// One element of a set field that is no message; `path` is as `--set` takes it.
struct SetValue {
  const Message& message;
  const FieldDescriptor& field;
  int index;
  const std::string& path;
};

// Visits every value that is set in the message and in the messages below it.
void ForEachValue(const Message& message, const std::string& path,
                  const std::function<void(const SetValue&)>& visit) {
  for (const FieldDescriptor* field : SetFields(message)) {
    for (int i = 0; i < Count(message, *field); ++i) {
      std::string here = FieldPath(path, field->name());
      if (field->is_repeated()) here += fmt::format("[{}]", i);
      if (field->message_type()) {
        ForEachValue(Child(message, *field, i), here, visit);
      } else {
        visit({message, *field, i, here});
      }
    }
  }
}

// Says what is wrong with the value and what is allowed; empty if nothing is wrong.
std::string FaultOf(const SetValue& value) {
  const FieldDescriptor& field = value.field;
  if (const std::optional<double> number = Number(value.message, field, value.index)) {
    const std::string broken = Broken(*number, RuleOf(field));
    return broken.empty() ? "" : fmt::format("{}, is {}", broken, Shown(*number));
  }
  if (field.enum_type() != nullptr) {
    const int number = EnumNumber(value.message, field, value.index);
    // Text format lets any number stand for an enum value.
    if (field.enum_type()->FindValueByNumber(number) != nullptr) return "";
    return DescribeUnknownValue(std::to_string(number), field);
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING &&
      HasControlCharacter(Text(value.message, field, value.index))) {
    return "has a control character; allowed is one line of text";
  }
  return "";
}

void RequireSameMember(const Message& lower, const FieldDescriptor& field, const std::string& path,
                       std::string_view way_out) {
  const FieldDescriptor* const set = OtherMember(lower, field);
  if (set == nullptr) return;
  throw InputError(InputError::Kind::kUsage, path,
                   fmt::format("is laid over {}, not over {}; allowed: fields of {}, or {}",
                               set->name(), field.name(), set->name(), way_out));
}

void Merge(const Message& upper, Message& lower, const std::string& path,
           std::string_view way_out) {
  for (const FieldDescriptor* field : SetFields(upper)) {
    RequireSameMember(lower, *field, path, way_out);
    if (field->message_type() && !field->is_repeated()) {
      Merge(Child(upper, *field, 0), MutableChild(lower, *field, 0), FieldPath(path, field->name()),
            way_out);
      continue;
    }
    lower.GetReflection()->ClearField(&lower, field);
    // A message in which only this field is set carries any scalar or list across.
    const std::unique_ptr<Message> only(upper.New());
    only->CopyFrom(upper);
    for (const FieldDescriptor* other : SetFields(upper)) {
      if (other != field) only->GetReflection()->ClearField(only.get(), other);
    }
    lower.MergeFrom(*only);
  }
}

}  // namespace

std::vector<InputFile> FilesNamedIn(const Message& message) {
  std::vector<InputFile> files;
  ForEachValue(message, "", [&](const SetValue& value) {
    const proto::Rule& rule = RuleOf(value.field);
    if (!rule.file() && !rule.name_or_file()) return;
    const std::string text = Text(value.message, value.field, value.index);
    if (text.empty()) return;
    if (rule.file() || text.find('/') != std::string::npos) files.push_back({value.path, text});
  });
  return files;
}

const FieldDescriptor* OtherMember(const Message& message, const FieldDescriptor& field) {
  const google::protobuf::OneofDescriptor* const oneof = field.real_containing_oneof();
  if (oneof == nullptr) return nullptr;
  const FieldDescriptor* const set =
      message.GetReflection()->GetOneofFieldDescriptor(message, oneof);
  return set == &field ? nullptr : set;
}

void Overlay(const Message& upper, Message& lower, std::string_view way_out) {
  CHECK(upper.GetDescriptor() == lower.GetDescriptor());
  Merge(upper, lower, "", way_out);
}

void ResolveFiles(const std::filesystem::path& folder, Message& message) {
  const Reflection& reflection = *message.GetReflection();
  for (const FieldDescriptor* field : SetFields(message)) {
    const proto::Rule& rule = RuleOf(*field);
    for (int i = 0; i < Count(message, *field); ++i) {
      if (field->message_type()) {
        ResolveFiles(folder, MutableChild(message, *field, i));
        continue;
      }
      if (!rule.file() && !rule.name_or_file()) continue;
      const std::string text = Text(message, *field, i);
      const bool path = rule.file() || text.find('/') != std::string::npos;
      if (!path || text.empty()) continue;
      const std::string absolute =
          std::filesystem::absolute(folder / text).lexically_normal().string();
      if (field->is_repeated()) {
        reflection.SetRepeatedString(&message, field, i, absolute);
      } else {
        reflection.SetString(&message, field, absolute);
      }
    }
  }
}

bool HalveNumber(const FieldDescriptor& field, Message& message) {
  const std::optional<double> number =
      field.is_repeated() ? std::nullopt : Number(message, field, 0);
  if (!number) return false;
  const Reflection& reflection = *message.GetReflection();
  const bool is_real = field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
  const double half = *number / 2;
  if (is_real) {
    reflection.SetDouble(&message, &field, half > 0 ? half : 1e-6);
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
    reflection.SetInt64(&message, &field, half >= 1 ? static_cast<std::int64_t>(half) : 2);
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
    reflection.SetInt32(&message, &field, half >= 1 ? static_cast<std::int32_t>(half) : 2);
  } else {
    return false;
  }
  return true;
}

void CheckRules(const Message& message, const std::string& source) {
  ForEachValue(message, "", [&](const SetValue& value) {
    const std::string fault = FaultOf(value);
    if (fault.empty()) return;
    throw InputError(InputError::Kind::kUsage, source, fmt::format("{}: {}", value.path, fault));
  });
}

}  // namespace twin
