// What to say about a wrong name in a config: the right one nearby, and all that are allowed.
#pragma once

#include <string>
#include <string_view>

namespace google::protobuf {
class Descriptor;
class FieldDescriptor;
}  // namespace google::protobuf

namespace twin {

// "no field "x" in y; nearest "z"; allowed: a, b, c".
std::string DescribeUnknownField(std::string_view wrong, const google::protobuf::Descriptor& type);

// "no value "x"; nearest "y"; allowed: a, b, c". REQUIRES: an enum field.
std::string DescribeUnknownValue(std::string_view wrong,
                                 const google::protobuf::FieldDescriptor& field);

// What may stand behind the field's name: "an integer", "one of: a, b", "{ ... } with x, y".
std::string DescribeAllowed(const google::protobuf::FieldDescriptor& field);

}  // namespace twin
