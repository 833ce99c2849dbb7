// Finds stop strings in a stream of text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace twin::text {

// Watches the text of one output for stop strings. The match that completes first ends the output;
// of matches that complete at the same character, the string listed first counts.
//
// With kCut, the text ends before the stop string (OpenAI's API, vLLM). Until the end, the last
// (characters of the longest stop string - 1) characters are held back, because a stop string could
// begin there. With kKeep, the text ends with the stop string (TGI, `include_stop_str_in_output`),
// and nothing is held back.
class StopMatcher {
 public:
  enum class MatchedText { kCut, kKeep };

  // REQUIRES: no stop string is empty; each is valid UTF-8. Without stop strings, all text passes.
  StopMatcher(std::vector<std::string> stops, MatchedText matched_text);

  // Adds text and returns what can be sent now; nothing after a match. With `may_stop` false, no
  // match is looked for in `text` (an output below its minimum length), but a later match can
  // begin there. REQUIRES: `text` is valid UTF-8.
  std::string Push(std::string_view text, bool may_stop = true);

  // Returns the held back text when the output ends without a match; nothing after a match.
  std::string Finish();

  // The index of the stop string that was found.
  [[nodiscard]] std::optional<std::size_t> matched() const { return matched_; }
  [[nodiscard]] const std::vector<std::string>& stops() const { return stops_; }

 private:
  struct Match {
    std::size_t stop;
    std::size_t begin;
    std::size_t end;
  };
  // The earliest completed match in `text` that ends after byte `end_after`.
  [[nodiscard]] std::optional<Match> Find(std::string_view text, std::size_t end_after) const;

  std::vector<std::string> stops_;
  MatchedText matched_text_;
  std::size_t characters_kept_ = 0;
  // The latest characters, in which a stop string may have begun: not sent with kCut, sent with
  // kKeep.
  std::string tail_;
  std::optional<std::size_t> matched_;
};

}  // namespace twin::text
