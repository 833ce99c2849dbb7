// Merges and checks config messages of any type, by reflection and the schema's (rule) options.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace google::protobuf {
class FieldDescriptor;
class Message;
}  // namespace google::protobuf

namespace twin {

// The member of the field's oneof that is set in `message`; null if it is the field itself, if none
// is set, and of fields outside oneofs.
const google::protobuf::FieldDescriptor* OtherMember(
    const google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field);

// Copies every field that is set in `upper` to `lower`. Messages are merged field by field; lists
// and scalars are replaced. Throws InputError (usage) "field.path: what is wrong, what is allowed"
// if `upper` has another member of a oneof than `lower`, because merging would drop all fields of
// the member in `lower`. The error offers `way_out` as an alternative to fields of that member.
// REQUIRES: both have one type.
void Overlay(const google::protobuf::Message& upper, google::protobuf::Message& lower,
             std::string_view way_out);

// Makes relative paths in `file` fields, and in `name_or_file` fields if the value has a '/',
// absolute and normal, starting at `folder`.
void ResolveFiles(const std::filesystem::path& folder, google::protobuf::Message& message);

// A file that a configuration names, or was read from.
struct InputFile {
  std::string field;  // path of the field, such as "workload.trace.path"
  std::string path;
};

// The files that the `file` fields name, and the `name_or_file` fields whose value has a '/', in
// the order of the fields. Empty values name none.
std::vector<InputFile> FilesNamedIn(const google::protobuf::Message& message);

// Halves a number, and sets a zero to a number above 0. False for fields of other types.
bool HalveNumber(const google::protobuf::FieldDescriptor& field,
                 google::protobuf::Message& message);

// Throws InputError(kUsage) "source: field.path: what is wrong, what is allowed" for the first
// field that breaks its rule, is not finite, has an enum number without a name, or contains control
// characters.
void CheckRules(const google::protobuf::Message& message, const std::string& source);

}  // namespace twin
