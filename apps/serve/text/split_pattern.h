// The regular expressions that cut text before byte pair encoding.
//
// Hugging Face tokenizers match with Oniguruma and tables of Unicode 16, this class with PCRE2.
// Both give the same matches for the patterns that pass its checks, because it rewrites \s (PCRE2's
// has U+180E), replaces characters that PCRE2's tables do not know (characters.h), and refuses
// constructs that the two libraries read differently.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/text/tokenizer.h"

namespace twin::text {

// While it lives, bounds the processor time of matching on this thread: 5 seconds, and 5 us for
// each byte of a text, which is some ten times what known patterns take. Beyond it FindAll()
// throws. At most one per thread.
class MatchTime {
 public:
  explicit MatchTime(std::size_t text_bytes);
  ~MatchTime();
  MatchTime(const MatchTime&) = delete;
  MatchTime& operator=(const MatchTime&) = delete;
};

// Immutable and thread-safe.
class SplitPattern {
 public:
  // `where` names file and field in errors. Throws InputError (data) for text that is no pattern,
  // unsupported constructs, and patterns that match the empty text.
  SplitPattern(std::string_view pattern, const std::string& where);
  ~SplitPattern();
  SplitPattern(SplitPattern&&) noexcept;
  SplitPattern& operator=(SplitPattern&&) noexcept;

  // Appends all matches, from left to right, in bytes of `text`. REQUIRES: `text` is valid UTF-8.
  // Throws InputError (data) if a match needs more memory or steps than allowed, or if MatchTime is
  // over.
  void FindAll(std::string_view text, std::vector<Span>& matches) const;

 private:
  struct Compiled;
  std::unique_ptr<const Compiled> compiled_;
};

// The pattern in PCRE2's syntax, with the same meaning. Throws as the constructor does.
std::string PatternForPcre2(std::string_view pattern, const std::string& where);

}  // namespace twin::text
