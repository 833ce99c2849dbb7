#include "proto/field_binding.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

namespace twin {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

const FieldDescriptor& Field(const Message& message, const char* name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  CHECK(field != nullptr);
  return *field;
}

}  // namespace

bool FromMessage::Has(const char* name) const {
  return message_.GetReflection()->HasField(message_, &Field(message_, name));
}

void FromMessage::Value(const char* name, bool& value) const {
  if (Has(name)) value = message_.GetReflection()->GetBool(message_, &Field(message_, name));
}

void FromMessage::Value(const char* name, std::int32_t& value) const {
  if (Has(name)) value = message_.GetReflection()->GetInt32(message_, &Field(message_, name));
}

void FromMessage::Value(const char* name, std::uint32_t& value) const {
  if (Has(name)) value = message_.GetReflection()->GetUInt32(message_, &Field(message_, name));
}

void FromMessage::Value(const char* name, std::int64_t& value) const {
  if (Has(name)) value = message_.GetReflection()->GetInt64(message_, &Field(message_, name));
}

void FromMessage::Value(const char* name, std::uint64_t& value) const {
  if (Has(name)) value = message_.GetReflection()->GetUInt64(message_, &Field(message_, name));
}

void FromMessage::Value(const char* name, double& value) const {
  if (Has(name)) value = message_.GetReflection()->GetDouble(message_, &Field(message_, name));
}

void FromMessage::Value(const char* name, std::string& value) const {
  if (Has(name)) value = message_.GetReflection()->GetString(message_, &Field(message_, name));
}

void FromMessage::Seconds(const char* name, Duration& value) const {
  if (!Has(name)) return;
  double seconds = 0;
  Value(name, seconds);
  value = DurationFromSeconds(seconds);
}

void FromMessage::Values(const char* name, std::vector<double>& values) const {
  const int size = Size(name);
  if (size > 0) values.clear();
  for (int i = 0; i < size; ++i) {
    const FieldDescriptor& field = Field(message_, name);
    values.push_back(message_.GetReflection()->GetRepeatedDouble(message_, &field, i));
  }
}

void FromMessage::Values(const char* name, std::vector<std::string>& values) const {
  const int size = Size(name);
  if (size > 0) values.clear();
  for (int i = 0; i < size; ++i) {
    const FieldDescriptor& field = Field(message_, name);
    values.push_back(message_.GetReflection()->GetRepeatedString(message_, &field, i));
  }
}

void FromMessage::Values(const char* name, std::vector<std::uint32_t>& values) const {
  const int size = Size(name);
  if (size > 0) values.clear();
  for (int i = 0; i < size; ++i) {
    const FieldDescriptor& field = Field(message_, name);
    values.push_back(message_.GetReflection()->GetRepeatedUInt32(message_, &field, i));
  }
}

std::string FromMessage::EnumWord(const char* name) const {
  return message_.GetReflection()->GetEnum(message_, &Field(message_, name))->name();
}

const Message& FromMessage::Child(const char* name) const {
  return message_.GetReflection()->GetMessage(message_, &Field(message_, name));
}

int FromMessage::Size(const char* name) const {
  return message_.GetReflection()->FieldSize(message_, &Field(message_, name));
}

const Message& FromMessage::Element(const char* name, int i) const {
  return message_.GetReflection()->GetRepeatedMessage(message_, &Field(message_, name), i);
}

void ToMessage::Value(const char* name, bool value) {
  message_.GetReflection()->SetBool(&message_, &Field(message_, name), value);
}

void ToMessage::Value(const char* name, std::int32_t value) {
  message_.GetReflection()->SetInt32(&message_, &Field(message_, name), value);
}

void ToMessage::Value(const char* name, std::uint32_t value) {
  message_.GetReflection()->SetUInt32(&message_, &Field(message_, name), value);
}

void ToMessage::Value(const char* name, std::int64_t value) {
  message_.GetReflection()->SetInt64(&message_, &Field(message_, name), value);
}

void ToMessage::Value(const char* name, std::uint64_t value) {
  message_.GetReflection()->SetUInt64(&message_, &Field(message_, name), value);
}

void ToMessage::Value(const char* name, double value) {
  message_.GetReflection()->SetDouble(&message_, &Field(message_, name), value);
}

void ToMessage::Value(const char* name, const std::string& value) {
  message_.GetReflection()->SetString(&message_, &Field(message_, name), value);
}

void ToMessage::Seconds(const char* name, Duration value) {
  // A quotient is the double nearest to the time, which prints in its shortest digits.
  Value(name, static_cast<double>(value.count()) / 1e9);
}

void ToMessage::Values(const char* name, const std::vector<double>& values) {
  for (const double value : values) {
    message_.GetReflection()->AddDouble(&message_, &Field(message_, name), value);
  }
}

void ToMessage::Values(const char* name, const std::vector<std::string>& values) {
  for (const std::string& value : values) {
    message_.GetReflection()->AddString(&message_, &Field(message_, name), value);
  }
}

void ToMessage::Values(const char* name, const std::vector<std::uint32_t>& values) {
  for (const std::uint32_t value : values) {
    message_.GetReflection()->AddUInt32(&message_, &Field(message_, name), value);
  }
}

void ToMessage::SetEnum(const char* name, const char* word) {
  const FieldDescriptor& field = Field(message_, name);
  const auto* value = field.enum_type()->FindValueByName(word);
  CHECK(value != nullptr);
  message_.GetReflection()->SetEnum(&message_, &field, value);
}

Message& ToMessage::MutableChild(const char* name) {
  return *message_.GetReflection()->MutableMessage(&message_, &Field(message_, name));
}

Message& ToMessage::AddElement(const char* name) {
  return *message_.GetReflection()->AddMessage(&message_, &Field(message_, name));
}

}  // namespace twin
