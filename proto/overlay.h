// Putting config messages together and checking them: what the schema's annotations say, done by
// reflection for every message.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace twin {

// Puts every field that is set in `upper` into `lower`. Messages are merged field by field; lists
// and scalars are replaced; another member of a oneof replaces the one that is there.
// REQUIRES: both of one type.
void Overlay(const google::protobuf::Message& upper, google::protobuf::Message& lower);

// Makes every relative path in a `file` field (and in a `name_or_file` field whose value has a
// '/') absolute and normal, starting from `folder`.
void ResolveFiles(const std::filesystem::path& folder, google::protobuf::Message& message);

// A file that a configuration names, or was read from.
struct InputFile {
  std::string field;  // path of the field, such as "workload.trace.path"
  std::string path;
};

// The files that the `file` fields name, and the `name_or_file` fields whose value has a '/', in
// the order of the fields.
std::vector<InputFile> FilesNamedIn(const google::protobuf::Message& message);

// Throws InputError(kUsage) "source: field.path: what is wrong, what is allowed" for the first
// number outside of its field's rule, not finite, enum number without a name, or text with control
// characters.
void CheckRules(const google::protobuf::Message& message, const std::string& source);

}  // namespace twin
