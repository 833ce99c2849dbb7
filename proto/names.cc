#include "proto/names.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <vector>

#include "core/nearest_names.h"
#include "core/printable.h"

namespace twin {

namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) {
    if (!type.field(i)->options().deprecated()) names.push_back(type.field(i)->name());
  }
  return names;
}

std::vector<std::string> ValueNames(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    const google::protobuf::EnumValueDescriptor& value = *type.value(i);
    // The first name of a number is the current one, others are former names.
    if (type.FindValueByNumber(value.number()) == &value) names.push_back(value.name());
  }
  return names;
}

std::string Join(const std::vector<std::string>& names) {
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : ", ") + name;
  return joined.empty() ? "nothing" : joined;
}

std::string Advice(std::string_view wrong, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string nearest = NearestNames(wrong, views);
  return "; nearest \"" + nearest.substr(0, nearest.find(',')) + "\"; allowed: " + Join(names);
}

}  // namespace

std::string DescribeUnknownField(std::string_view wrong, const Descriptor& type) {
  return "no field \"" + Printable(wrong) + "\" in " + type.name() +
         Advice(wrong, FieldNames(type));
}

std::string DescribeUnknownValue(std::string_view wrong, const FieldDescriptor& field) {
  return "no value \"" + Printable(wrong) + "\"" + Advice(wrong, ValueNames(*field.enum_type()));
}

std::string DescribeAllowed(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return "an integer of 32 bits";
    case FieldDescriptor::CPPTYPE_UINT32:
      return "a non-negative integer of 32 bits";
    case FieldDescriptor::CPPTYPE_INT64:
      return "an integer of 64 bits";
    case FieldDescriptor::CPPTYPE_UINT64:
      return "a non-negative integer of 64 bits";
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "a number";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_STRING:
      return "a quoted string";
    case FieldDescriptor::CPPTYPE_ENUM:
      return "one of: " + Join(ValueNames(*field.enum_type()));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "{ ... } with the fields " + Join(FieldNames(*field.message_type()));
  }
  return "";
}

}  // namespace twin
