#include "config/text_message.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <optional>
#include <vector>

#include "config/names.h"
#include "core/check.h"
#include "core/files/input_file.h"
#include "core/input_error.h"
#include "core/printable.h"

namespace twin {

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::Tokenizer;

constexpr std::size_t kConfigBytesMax = 16u << 20;
constexpr int kNestingMax = 32;

struct Complaint {
  int line = 0;  // from 0
  int column = 0;
  std::string what;
};

// Keeps the first error; the parser's later ones are consequences of it.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& what) override {
    if (!complaint_) complaint_ = Complaint{line, column, what};
  }
  [[nodiscard]] const std::optional<Complaint>& complaint() const { return complaint_; }

 private:
  std::optional<Complaint> complaint_;
};

// The place in the schema that a position of the text belongs to.
struct Place {
  const Descriptor* message = nullptr;
  const FieldDescriptor* field = nullptr;  // the field last named in `message`; may be null
  std::string path;                        // of `field`, or of `message` if `field` is null
  Tokenizer::Token token;                  // the token before the position
};

// Follows the tokens up to a position through the schema.
class PlaceFinder {
 public:
  explicit PlaceFinder(const Descriptor& root) { levels_.push_back({&root, nullptr}); }

  Place Find(std::string_view text, int line, int column) {
    ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
    FirstError ignored;
    Tokenizer tokens(&stream, &ignored);
    tokens.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
    while (tokens.Next()) {
      const Tokenizer::Token& token = tokens.current();
      if (token.line > line || (token.line == line && token.column >= column)) break;
      Follow(token);
      latest_ = token;
    }
    return Here();
  }

 private:
  struct Level {
    const Descriptor* message;
    const FieldDescriptor* field;
  };

  void Follow(const Tokenizer::Token& token) {
    Level& level = levels_.back();
    if (token.type == Tokenizer::TYPE_IDENTIFIER && !value_expected_) {
      level.field = level.message ? level.message->FindFieldByName(token.text) : nullptr;
    } else if (token.text == "{" || token.text == "<") {
      const bool nested = level.field && level.field->message_type();
      levels_.push_back({nested ? level.field->message_type() : nullptr, nullptr});
    } else if ((token.text == "}" || token.text == ">") && levels_.size() > 1) {
      levels_.pop_back();
    }
    value_expected_ = token.text == ":" || token.text == "[" || token.text == "-" ||
                      (value_expected_ && token.text == ",");
  }

  [[nodiscard]] Place Here() const {
    Place place{levels_.back().message, levels_.back().field, "", latest_};
    for (const Level& level : levels_) {
      if (level.field) place.path = FieldPath(place.path, level.field->name());
    }
    return place;
  }

  std::vector<Level> levels_;
  Tokenizer::Token latest_{};
  bool value_expected_ = false;
};

// The text between the last pair of quotes.
std::string LastQuoted(const std::string& text) {
  const std::size_t end = text.rfind('"');
  if (end == std::string::npos || end == 0) return "";
  const std::size_t begin = text.rfind('"', end - 1);
  return begin == std::string::npos ? "" : text.substr(begin + 1, end - begin - 1);
}

std::string FirstQuoted(const std::string& text) {
  const std::size_t begin = text.find('"');
  const std::size_t end = begin == std::string::npos ? begin : text.find('"', begin + 1);
  return end == std::string::npos ? "" : text.substr(begin + 1, end - begin - 1);
}

bool StartsWith(const std::string& text, std::string_view prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

// The parser's message, completed by what the schema allows at that place.
std::string Explain(const std::string& what, const Place& place, const Descriptor& root) {
  if (what.find("has no field named") != std::string::npos && place.message) {
    return DescribeUnknownField(LastQuoted(what), *place.message, root);
  }
  if (!place.field) return Printable(what, kMessageBytesMax);
  if (StartsWith(what, "Unknown enumeration value") && place.field->enum_type()) {
    return DescribeUnknownValue(FirstQuoted(what), *place.field);
  }
  const bool wrong_value = StartsWith(what, "Expected ") || StartsWith(what, "Integer out of") ||
                           StartsWith(what, "Invalid value for boolean");
  const std::string said = Printable(what, kMessageBytesMax);
  return wrong_value ? said + " (the field takes " + DescribeAllowed(*place.field) + ")" : said;
}

// The column in the user's text.
int OriginalColumn(const Complaint& complaint, const std::vector<TextPosition>& inserted) {
  int before = 0;
  for (const TextPosition& position : inserted) {
    if (position.line == complaint.line && position.column + before < complaint.column) ++before;
  }
  return complaint.column - before;
}

[[noreturn]] void Complain(Complaint complaint, std::string_view text, const TextSource& source,
                           const Descriptor& root) {
  const Place place = PlaceFinder(root).Find(text, complaint.line, complaint.column);
  // The parser reports some words only after it has passed them.
  if (!place.token.text.empty() && (place.token.text == FirstQuoted(complaint.what) ||
                                    place.token.text == LastQuoted(complaint.what))) {
    complaint.line = place.token.line;
    complaint.column = place.token.column;
  }
  const std::string position =
      fmt::format(":{}:{}", complaint.line + 1, OriginalColumn(complaint, source.inserted) + 1);
  const bool in_field = !place.path.empty() && complaint.what.find("no field") == std::string::npos;
  throw InputError(InputError::Kind::kUsage, source.name + (source.has_lines ? position : ""),
                   (in_field ? place.path + ": " : "") + Explain(complaint.what, place, root));
}

}  // namespace

void ParseText(std::string_view text, const TextSource& source,
               google::protobuf::Message& message) {
  FirstError errors;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.SetRecursionLimit(kNestingMax);
  ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  const bool parsed = parser.Parse(&stream, &message);
  if (errors.complaint()) Complain(*errors.complaint(), text, source, *message.GetDescriptor());
  if (!parsed) throw InputError(InputError::Kind::kUsage, source.name, "is no text-format message");
}

std::string PrintText(const google::protobuf::Message& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  std::string text;
  CHECK(printer.PrintToString(message, &text));
  return text;
}

std::string ReadTextFile(const std::filesystem::path& path) {
  return ReadFile(path, kConfigBytesMax, InputError::Kind::kUsage);
}

}  // namespace twin
