// Lets numbers and words stand without quotes in a repeated string field of a text-format file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace twin {

// A position of a text, counted from 0 as protobuf's tokenizer counts.
struct TextPosition {
  int line = 0;
  int column = 0;
};

struct QuotedText {
  std::string text;
  std::vector<TextPosition> inserted;  // of the quotes, in the original text, in order
};

// Puts quotes around every number and word that is a value of a field called `field`, at any depth:
// `values: [1, -2.5, on]` becomes `values: ["1", "-2.5", "on"]`. Stops at text that the tokenizer
// does not understand; parsing the result reports that error.
QuotedText QuoteValues(std::string_view text, std::string_view field);

}  // namespace twin
