// Protobuf text format, read strictly: one wrong word gives one line that says what would be right.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace twin {

// What errors call a text.
struct TextSource {
  std::string name;  // a file, or an argument of the command line
  bool has_lines = true;
};

// Replaces the content of `message` by what `text` says.
// Throws InputError(kUsage) "NAME:LINE:COLUMN: field.path: what is wrong, what is allowed" for the
// first syntax error, unknown or repeated field, unknown enum value or value of the wrong type.
void ParseText(std::string_view text, const TextSource& source, google::protobuf::Message& message);

// The text format, one field a line, fields in the order of their numbers.
std::string PrintText(const google::protobuf::Message& message);

// The whole file. Throws InputError(kUsage) if it is no regular file, cannot be read or is larger
// than 16 MiB.
std::string ReadTextFile(const std::filesystem::path& path);

}  // namespace twin
