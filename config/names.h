// Names of fields in a config: their paths, and error texts for unknown names with the nearest
// valid name and all valid names.
#pragma once

#include <string>
#include <string_view>

namespace google::protobuf {
class Descriptor;
class FieldDescriptor;
}  // namespace google::protobuf

namespace twin {

// "system.memory" of "system" and "memory"; the name alone where the path is empty.
std::string FieldPath(std::string_view path, std::string_view name);

// "no field "x" in y; nearest "z"; allowed: a, b, c". If messages below `root` have a field of that
// name elsewhere, gives its path in place of the nearest name; paths below `type` come first.
std::string DescribeUnknownField(std::string_view wrong, const google::protobuf::Descriptor& type,
                                 const google::protobuf::Descriptor& root);

// "no value "x"; nearest "y"; allowed: a, b, c". REQUIRES: an enum field.
std::string DescribeUnknownValue(std::string_view wrong,
                                 const google::protobuf::FieldDescriptor& field);

// The values that a field takes: "an integer", "one of: a, b", "{ ... } with x, y".
std::string DescribeAllowed(const google::protobuf::FieldDescriptor& field);

}  // namespace twin
