// The pre-tokenizers of a tokenizer.json: they cut a text into the words that the model merges.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/serve/text/aligned_text.h"
#include "apps/serve/text/json_part.h"
#include "apps/serve/text/split_pattern.h"

namespace twin::text {

// A text cut into words, from left to right. Text between words is dropped.
struct Words {
  AlignedText text;
  std::vector<Span> spans;
};

// Immutable and thread-safe.
class PreTokenizer {
 public:
  // Leaves a text as one word.
  PreTokenizer() = default;
  // Throws InputError (data) for kinds and settings that are not supported.
  explicit PreTokenizer(const JsonPart& part) { Read(part); }

  [[nodiscard]] Words Apply(AlignedText text) const;

  // True if words are merged as bytes, and tokens are spelled in the alphabet of byte_alphabet.h.
  [[nodiscard]] bool byte_level() const { return byte_level_; }
  // True if a text is one word, apart from spaces that are replaced or added.
  [[nodiscard]] bool keeps_whole() const { return keeps_whole_; }

 private:
  enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
  enum class PrependScheme { kAlways, kFirst, kNever };

  // A run of text that a pattern matches, or one between matches.
  struct Run {
    Span span;
    bool is_match;
  };

  struct Split {
    std::variant<SplitPattern, std::string> pattern;  // the string is matched literally
    Behavior behavior;
    bool invert;
  };
  struct Digits {
    bool individual;
  };
  struct Metaspace {
    std::string replacement;
    PrependScheme scheme;
    bool split;
  };
  // Puts a space before words that do not begin with one.
  struct PrefixSpace {};
  using Step = std::variant<Split, Digits, Metaspace, PrefixSpace>;

  void Read(const JsonPart& part);
  void ReadSplit(const JsonPart& part);
  void ReadMetaspace(const JsonPart& part);
  void ReadByteLevel(const JsonPart& part);

  static void Apply(const Split& step, Words& words);
  static void Apply(const Digits& step, Words& words);
  static void Apply(const Metaspace& step, Words& words);
  static void Apply(const PrefixSpace& step, Words& words);
  // Cuts each word where `find` (word, matches) finds something.
  template <typename Find>
  static void CutWords(Words& words, Behavior behavior, bool invert, const Find& find);
  static std::vector<Run> RunsOf(std::string_view word, const std::vector<Span>& matches,
                                 bool invert);
  static void Append(const std::vector<Run>& runs, Behavior behavior, std::size_t offset,
                     std::vector<Span>& words);

  std::vector<Step> steps_;
  bool byte_level_ = false;
  bool keeps_whole_ = true;
};

}  // namespace twin::text
