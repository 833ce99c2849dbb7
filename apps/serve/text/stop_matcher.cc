#include "apps/serve/text/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "apps/serve/text/utf8.h"
#include "core/check.h"

namespace twin::text {

StopMatcher::StopMatcher(std::vector<std::string> stops, MatchedText matched_text)
    : stops_(std::move(stops)), matched_text_(matched_text) {
  std::size_t longest = 1;
  for (const std::string& stop : stops_) {
    CHECK(!stop.empty());
    longest = std::max(longest, CountCharacters(stop));
  }
  characters_kept_ = longest - 1;
}

std::optional<StopMatcher::Match> StopMatcher::Find(std::string_view text,
                                                    std::size_t end_after) const {
  std::optional<Match> first;
  for (std::size_t k = 0; k < stops_.size(); ++k) {
    const std::size_t bytes = stops_[k].size();
    const std::size_t begin = text.find(stops_[k], end_after < bytes ? 0 : end_after - bytes + 1);
    if (begin == std::string_view::npos) continue;
    if (!first || begin + bytes < first->end) first = Match{k, begin, begin + bytes};
  }
  return first;
}

std::string StopMatcher::Push(std::string_view text, bool may_stop) {
  if (matched_) return {};
  if (stops_.empty()) return std::string(text);
  const std::size_t known = tail_.size();
  std::string all = std::exchange(tail_, {});
  all += text;
  const bool cuts = matched_text_ == MatchedText::kCut;
  if (may_stop) {
    if (const std::optional<Match> match = Find(all, known)) {
      matched_ = match->stop;
      return cuts ? all.substr(0, match->begin) : all.substr(known, match->end - known);
    }
  }
  const std::size_t tail = BeginOfLast(all, characters_kept_);
  tail_ = all.substr(tail);
  if (!cuts) return std::string(text);
  all.resize(tail);
  return all;
}

std::string StopMatcher::Finish() {
  std::string held = std::exchange(tail_, {});
  return matched_ || matched_text_ == MatchedText::kKeep ? std::string() : held;
}

}  // namespace twin::text
