// The comments of the .proto files, at run time.
#pragma once

#include <memory>
#include <string>

namespace google::protobuf {
class Descriptor;
class DescriptorPool;
class EnumValueDescriptor;
class FieldDescriptor;
}  // namespace google::protobuf

namespace twin {

// Looks up comments by the descriptors of the generated messages. Returns one line: the comments
// before and after the declaration, joined by spaces; empty if there are none.
class SchemaComments {
 public:
  SchemaComments();
  ~SchemaComments();
  SchemaComments(const SchemaComments&) = delete;
  SchemaComments& operator=(const SchemaComments&) = delete;

  [[nodiscard]] std::string Of(const google::protobuf::Descriptor& message) const;
  [[nodiscard]] std::string Of(const google::protobuf::FieldDescriptor& field) const;
  [[nodiscard]] std::string Of(const google::protobuf::EnumValueDescriptor& value) const;

 private:
  std::unique_ptr<google::protobuf::DescriptorPool> pool_;
};

}  // namespace twin
