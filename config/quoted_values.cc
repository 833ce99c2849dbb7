#include "config/quoted_values.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstddef>

namespace twin {
namespace {

using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::Tokenizer;

// Ignores errors: parsing the text reports them.
class NoErrors final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int /*line*/, int /*column*/, const std::string& /*what*/) override {}
};

// Byte offsets of a text's positions. The tokenizer lets a tab reach to the next multiple of 8.
class Offsets {
 public:
  explicit Offsets(std::string_view text) : text_(text) {}

  // REQUIRES: positions never decrease.
  std::size_t Of(TextPosition position) {
    while (offset_ < text_.size() &&
           (line_ < position.line || (line_ == position.line && column_ < position.column))) {
      const char c = text_[offset_++];
      if (c == '\n') {
        ++line_;
        column_ = 0;
      } else {
        column_ += c == '\t' ? 8 - column_ % 8 : 1;
      }
    }
    return offset_;
  }

 private:
  std::string_view text_;
  std::size_t offset_ = 0;
  int line_ = 0;
  int column_ = 0;
};

struct Span {
  TextPosition begin;
  TextPosition end;
};

bool IsBare(const Tokenizer::Token& token) {
  return token.type == Tokenizer::TYPE_INTEGER || token.type == Tokenizer::TYPE_FLOAT ||
         token.type == Tokenizer::TYPE_IDENTIFIER;
}

// The bare values of the field, in order.
std::vector<Span> BareValues(std::string_view text, std::string_view field) {
  ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  NoErrors ignored;
  Tokenizer tokens(&stream, &ignored);
  tokens.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
  tokens.set_allow_f_after_float(true);
  enum class State { kElsewhere, kNamed, kValue, kList };
  State state = State::kElsewhere;
  std::vector<Span> spans;
  TextPosition minus{-1, 0};
  while (tokens.Next()) {
    const Tokenizer::Token& token = tokens.current();
    const bool in_value = state == State::kValue || state == State::kList;
    if (in_value && token.text == "-") {
      minus = {token.line, token.column};
      continue;
    }
    if (in_value && IsBare(token)) {
      const TextPosition begin = minus.line >= 0 ? minus : TextPosition{token.line, token.column};
      spans.push_back({begin, {token.line, token.end_column}});
    }
    minus.line = -1;
    if (state == State::kElsewhere) {
      if (token.type == Tokenizer::TYPE_IDENTIFIER && token.text == field) state = State::kNamed;
    } else if (state == State::kNamed) {
      state = token.text == ":" ? State::kValue : State::kElsewhere;
    } else if (state == State::kValue) {
      state = token.text == "[" ? State::kList : State::kElsewhere;
    } else if (token.text == "]") {
      state = State::kElsewhere;
    }
  }
  return spans;
}

}  // namespace

QuotedText QuoteValues(std::string_view text, std::string_view field) {
  QuotedText quoted;
  Offsets offsets(text);
  std::size_t copied = 0;
  for (const Span& span : BareValues(text, field)) {
    for (const TextPosition& position : {span.begin, span.end}) {
      const std::size_t offset = offsets.Of(position);
      quoted.text.append(text.substr(copied, offset - copied)).push_back('"');
      quoted.inserted.push_back(position);
      copied = offset;
    }
  }
  quoted.text.append(text.substr(copied));
  return quoted;
}

}  // namespace twin
