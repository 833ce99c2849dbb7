#include "apps/serve/text/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "apps/serve/text/characters.h"
#include "apps/serve/text/utf8.h"

namespace twin::text {

namespace {

// The pattern with which ByteLevel cuts (GPT-2).
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

void FindLiterally(std::string_view text, std::string_view pattern, std::vector<Span>& matches) {
  for (std::size_t at = text.find(pattern); at != std::string_view::npos;
       at = text.find(pattern, at + pattern.size())) {
    matches.push_back({at, at + pattern.size()});
  }
}

}  // namespace

void PreTokenizer::Read(const JsonPart& part) {
  if (byte_level_) part.Refuse("stands behind ByteLevel, which must be the last pre-tokenizer");
  const std::string type = part.Text("type");
  if (type == "Sequence") {
    for (const JsonPart& step : part.Objects("pretokenizers")) Read(step);
  } else if (type == "Split") {
    ReadSplit(part);
  } else if (type == "Digits") {
    steps_.emplace_back(Digits{part.Flag("individual_digits", false)});
    keeps_whole_ = false;
  } else if (type == "Metaspace") {
    ReadMetaspace(part);
  } else if (type == "ByteLevel") {
    ReadByteLevel(part);
  } else {
    part.RefuseField("type", "allowed are ByteLevel, Digits, Metaspace, Sequence, Split");
  }
  part.RequireFew(steps_.size());
}

void PreTokenizer::ReadSplit(const JsonPart& part) {
  const JsonPart pattern = part.Object("pattern");
  const std::string behavior = part.Text("behavior");
  constexpr std::pair<std::string_view, Behavior> kBehaviors[] = {
      {"Removed", Behavior::kRemoved},
      {"Isolated", Behavior::kIsolated},
      {"MergedWithPrevious", Behavior::kMergedWithPrevious},
      {"MergedWithNext", Behavior::kMergedWithNext},
      {"Contiguous", Behavior::kContiguous}};
  const auto* found = std::find_if(std::begin(kBehaviors), std::end(kBehaviors),
                                   [&](const auto& entry) { return entry.first == behavior; });
  if (found == std::end(kBehaviors)) {
    part.RefuseField("behavior",
                     "allowed are Removed, Isolated, MergedWithPrevious, MergedWithNext, "
                     "Contiguous");
  }
  const bool invert = part.Flag("invert", false);
  keeps_whole_ = false;
  if (pattern.Has("Regex")) {
    SplitPattern compiled(pattern.Text("Regex"), pattern.Where("Regex"));
    steps_.emplace_back(Split{std::move(compiled), found->second, invert});
    return;
  }
  const std::string literal = pattern.Text("String");
  if (literal.empty()) pattern.RefuseField("String", "must not be empty");
  steps_.emplace_back(Split{literal, found->second, invert});
}

void PreTokenizer::ReadMetaspace(const JsonPart& part) {
  Metaspace step{part.Text("replacement", "▁"), PrependScheme::kAlways, part.Flag("split", true)};
  if (step.replacement.empty() || CharacterBytes(step.replacement[0]) != step.replacement.size()) {
    part.RefuseField("replacement", "must be one character");
  }
  const std::string scheme = part.Text("prepend_scheme", "always");
  if (scheme == "first") {
    step.scheme = PrependScheme::kFirst;
  } else if (scheme == "never") {
    step.scheme = PrependScheme::kNever;
  } else if (scheme != "always") {
    part.RefuseField("prepend_scheme", "allowed are always, first, never");
  }
  // Older files have add_prefix_space in place of prepend_scheme. If both are given, they must
  // agree.
  if (!part.Flag("add_prefix_space", true) && step.scheme != PrependScheme::kNever) {
    if (part.Has("prepend_scheme")) {
      part.RefuseField("add_prefix_space", "with it, prepend_scheme must be never");
    }
    step.scheme = PrependScheme::kNever;
  }
  if (step.split) keeps_whole_ = false;
  steps_.emplace_back(std::move(step));
}

void PreTokenizer::ReadByteLevel(const JsonPart& part) {
  byte_level_ = true;
  keeps_whole_ = false;
  if (part.Flag("add_prefix_space", true)) steps_.emplace_back(PrefixSpace{});
  if (!part.Flag("use_regex", true)) return;
  steps_.emplace_back(Split{SplitPattern(kByteLevelPattern, part.Where("use_regex")),
                            Behavior::kIsolated, /*invert=*/false});
}

Words PreTokenizer::Apply(AlignedText text) const {
  Words words{std::move(text), {}};
  if (words.text.text().empty()) return words;
  words.spans.push_back({0, words.text.text().size()});
  for (const Step& step : steps_) {
    std::visit([&](const auto& kind) { Apply(kind, words); }, step);
  }
  return words;
}

std::vector<PreTokenizer::Run> PreTokenizer::RunsOf(std::string_view word,
                                                    const std::vector<Span>& matches, bool invert) {
  std::vector<Run> runs;
  std::size_t at = 0;
  for (const Span& match : matches) {
    if (at < match.begin) runs.push_back({{at, match.begin}, invert});
    runs.push_back({match, !invert});
    at = match.end;
  }
  if (at < word.size()) runs.push_back({{at, word.size()}, invert});
  return runs;
}

void PreTokenizer::Append(const std::vector<Run>& runs, Behavior behavior, std::size_t offset,
                          std::vector<Span>& words) {
  const std::size_t first = words.size();
  bool previous_match = false;
  for (std::size_t k = 0; k < runs.size(); ++k) {
    const Span span{offset + runs[k].span.begin, offset + runs[k].span.end};
    const bool is_match = runs[k].is_match;
    bool extends = false;
    switch (behavior) {
      case Behavior::kRemoved:
        if (!is_match) words.push_back(span);
        continue;
      case Behavior::kIsolated:
        break;
      case Behavior::kMergedWithPrevious:
        extends = is_match && !previous_match;
        break;
      case Behavior::kMergedWithNext:
        // A match joins the next run unless that is a match too.
        extends = k > 0 && !is_match && previous_match;
        break;
      case Behavior::kContiguous:
        extends = is_match == previous_match;
        break;
    }
    previous_match = is_match;
    if (extends && words.size() > first) {
      words.back().end = span.end;
    } else {
      words.push_back(span);
    }
  }
}

template <typename Find>
void PreTokenizer::CutWords(Words& words, Behavior behavior, bool invert, const Find& find) {
  std::vector<Span> cut;
  std::vector<Span> matches;
  for (const Span& span : words.spans) {
    const auto word = std::string_view(words.text.text()).substr(span.begin, span.end - span.begin);
    matches.clear();
    find(word, matches);
    Append(RunsOf(word, matches, invert), behavior, span.begin, cut);
  }
  words.spans = std::move(cut);
}

void PreTokenizer::Apply(const Split& step, Words& words) {
  CutWords(words, step.behavior, step.invert,
           [&](std::string_view word, std::vector<Span>& matches) {
             if (const auto* pattern = std::get_if<SplitPattern>(&step.pattern)) {
               pattern->FindAll(word, matches);
             } else {
               FindLiterally(word, std::get<std::string>(step.pattern), matches);
             }
           });
}

void PreTokenizer::Apply(const Digits& step, Words& words) {
  CutWords(words, step.individual ? Behavior::kIsolated : Behavior::kContiguous, /*invert=*/false,
           [](std::string_view word, std::vector<Span>& matches) {
             for (std::size_t at = 0; at < word.size();) {
               const CodePoint character = CodePointAt(word, at);
               if (IsNumeric(character.value)) matches.push_back({at, at + character.bytes});
               at += character.bytes;
             }
           });
}

void PreTokenizer::Apply(const Metaspace& step, Words& words) {
  TextRewrite rewrite(words.text);
  const std::string_view source = words.text.text();
  std::vector<Span> rewritten;
  for (const Span& span : words.spans) {
    const std::size_t begin = rewrite.size();
    const std::string_view word = source.substr(span.begin, span.end - span.begin);
    const bool starts_with_it = word.starts_with(' ') || word.starts_with(step.replacement);
    const bool may_prepend =
        step.scheme == PrependScheme::kAlways ||
        (step.scheme == PrependScheme::kFirst && span.begin == 0 && words.text.at_start());
    if (may_prepend && !starts_with_it) rewrite.AddFrom(span, step.replacement);
    std::size_t at = span.begin;
    for (std::size_t space = source.find(' ', at); space < span.end; space = source.find(' ', at)) {
      rewrite.Keep({at, space});
      rewrite.Replace({space, space + 1}, step.replacement);
      at = space + 1;
    }
    rewrite.Keep({at, span.end});
    rewritten.push_back({begin, rewrite.size()});
  }
  words = Words{rewrite.Finish(), std::move(rewritten)};
  if (!step.split) return;
  CutWords(words, Behavior::kMergedWithNext, /*invert=*/false,
           [&](std::string_view word, std::vector<Span>& matches) {
             FindLiterally(word, step.replacement, matches);
           });
}

void PreTokenizer::Apply(const PrefixSpace& /*step*/, Words& words) {
  TextRewrite rewrite(words.text);
  std::vector<Span> rewritten;
  for (const Span& span : words.spans) {
    const std::size_t begin = rewrite.size();
    if (words.text.text()[span.begin] != ' ') rewrite.AddFrom(span, " ");
    rewrite.Keep(span);
    rewritten.push_back({begin, rewrite.size()});
  }
  words = Words{rewrite.Finish(), std::move(rewritten)};
}

}  // namespace twin::text
