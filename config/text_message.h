// Reads and writes protobuf text format. A wrong word gives one line that says what is allowed.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/quoted_values.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace twin {

// How errors refer to a text.
struct TextSource {
  std::string name;  // a file, or an argument of the command line
  bool has_lines = true;
  // Characters that the text has and the user's text does not: left out of columns.
  std::vector<TextPosition> inserted = {};
};

// Replaces the content of `message` by that of `text`.
// Throws InputError(kUsage) "NAME:LINE:COLUMN: field.path: what is wrong, what is allowed" for the
// first syntax error, unknown or repeated field, unknown enum value or value of the wrong type.
void ParseText(std::string_view text, const TextSource& source, google::protobuf::Message& message);

// Text format with one field per line, in the order of field numbers.
std::string PrintText(const google::protobuf::Message& message);

// The content of a file. Throws InputError(kUsage) if it is not a regular file, cannot be read or
// exceeds 16 MiB.
std::string ReadTextFile(const std::filesystem::path& path);

}  // namespace twin
