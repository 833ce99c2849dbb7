#include "config/field_binding.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

namespace twin {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

const FieldDescriptor& Field(const Message& message, const char* name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  CHECK(field != nullptr);
  return *field;
}

// Reads a field that is set.
template <class T>
void CopyValue(const Message& message, const char* name, T& value,
               T (Reflection::*get)(const Message&, const FieldDescriptor*) const) {
  const FieldDescriptor& field = Field(message, name);
  const Reflection& reflection = *message.GetReflection();
  if (reflection.HasField(message, &field)) value = (reflection.*get)(message, &field);
}

// Replaces the values by the elements of a repeated field that has any.
template <class T>
void CopyElements(const Message& message, const char* name, std::vector<T>& values,
                  T (Reflection::*get)(const Message&, const FieldDescriptor*, int) const) {
  const FieldDescriptor& field = Field(message, name);
  const Reflection& reflection = *message.GetReflection();
  const int size = reflection.FieldSize(message, &field);
  if (size == 0) return;
  values.clear();
  values.reserve(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i) values.push_back((reflection.*get)(message, &field, i));
}

}  // namespace

bool FromMessage::Has(const char* field) const {
  return message_.GetReflection()->HasField(message_, &Field(message_, field));
}

void FromMessage::Value(const char* field, bool& value) const {
  CopyValue(message_, field, value, &Reflection::GetBool);
}

void FromMessage::Value(const char* field, std::int32_t& value) const {
  CopyValue(message_, field, value, &Reflection::GetInt32);
}

void FromMessage::Value(const char* field, std::uint32_t& value) const {
  CopyValue(message_, field, value, &Reflection::GetUInt32);
}

void FromMessage::Value(const char* field, std::int64_t& value) const {
  CopyValue(message_, field, value, &Reflection::GetInt64);
}

void FromMessage::Value(const char* field, std::uint64_t& value) const {
  CopyValue(message_, field, value, &Reflection::GetUInt64);
}

void FromMessage::Value(const char* field, double& value) const {
  CopyValue(message_, field, value, &Reflection::GetDouble);
}

void FromMessage::Value(const char* field, std::string& value) const {
  CopyValue(message_, field, value, &Reflection::GetString);
}

void FromMessage::Value(const char* field, Duration& value) const {
  if (!Has(field)) return;
  double seconds = 0;
  Value(field, seconds);
  value = DurationFromSeconds(seconds);
}

void FromMessage::Value(const char* field, std::vector<double>& values) const {
  CopyElements(message_, field, values, &Reflection::GetRepeatedDouble);
}

void FromMessage::Value(const char* field, std::vector<std::string>& values) const {
  CopyElements(message_, field, values, &Reflection::GetRepeatedString);
}

void FromMessage::Value(const char* field, std::vector<std::uint32_t>& values) const {
  CopyElements(message_, field, values, &Reflection::GetRepeatedUInt32);
}

std::string FromMessage::EnumWord(const char* field) const {
  return message_.GetReflection()->GetEnum(message_, &Field(message_, field))->name();
}

const Message& FromMessage::Child(const char* field) const {
  return message_.GetReflection()->GetMessage(message_, &Field(message_, field));
}

int FromMessage::Size(const char* field) const {
  return message_.GetReflection()->FieldSize(message_, &Field(message_, field));
}

const Message& FromMessage::Element(const char* field, int i) const {
  return message_.GetReflection()->GetRepeatedMessage(message_, &Field(message_, field), i);
}

void ToMessage::Value(const char* field, bool value) {
  message_.GetReflection()->SetBool(&message_, &Field(message_, field), value);
}

void ToMessage::Value(const char* field, std::int32_t value) {
  message_.GetReflection()->SetInt32(&message_, &Field(message_, field), value);
}

void ToMessage::Value(const char* field, std::uint32_t value) {
  message_.GetReflection()->SetUInt32(&message_, &Field(message_, field), value);
}

void ToMessage::Value(const char* field, std::int64_t value) {
  message_.GetReflection()->SetInt64(&message_, &Field(message_, field), value);
}

void ToMessage::Value(const char* field, std::uint64_t value) {
  message_.GetReflection()->SetUInt64(&message_, &Field(message_, field), value);
}

void ToMessage::Value(const char* field, double value) {
  message_.GetReflection()->SetDouble(&message_, &Field(message_, field), value);
}

void ToMessage::Value(const char* field, const std::string& value) {
  message_.GetReflection()->SetString(&message_, &Field(message_, field), value);
}

void ToMessage::Value(const char* field, Duration value) {
  // A quotient is the double nearest to the time, which prints in its shortest digits.
  Value(field, static_cast<double>(value.count()) / 1e9);
}

void ToMessage::Value(const char* field, const std::vector<double>& values) {
  for (const double value : values) {
    message_.GetReflection()->AddDouble(&message_, &Field(message_, field), value);
  }
}

void ToMessage::Value(const char* field, const std::vector<std::string>& values) {
  for (const std::string& value : values) {
    message_.GetReflection()->AddString(&message_, &Field(message_, field), value);
  }
}

void ToMessage::Value(const char* field, const std::vector<std::uint32_t>& values) {
  for (const std::uint32_t value : values) {
    message_.GetReflection()->AddUInt32(&message_, &Field(message_, field), value);
  }
}

void ToMessage::SetEnum(const char* field, const char* word) {
  const FieldDescriptor& descriptor = Field(message_, field);
  const auto* value = descriptor.enum_type()->FindValueByName(word);
  CHECK(value != nullptr);
  message_.GetReflection()->SetEnum(&message_, &descriptor, value);
}

Message& ToMessage::MutableChild(const char* field) {
  return *message_.GetReflection()->MutableMessage(&message_, &Field(message_, field));
}

Message& ToMessage::AddElement(const char* field) {
  return *message_.GetReflection()->AddMessage(&message_, &Field(message_, field));
}

}  // namespace twin
