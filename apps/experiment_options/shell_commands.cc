#include "apps/experiment_options/shell_commands.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "core/input_error.h"

namespace twin::apps {
namespace {

class ShellReader {
 public:
  ShellReader(const std::string& where, std::string_view line) : where_(where), line_(line) {}

  std::vector<std::vector<std::string>> Read() {
    while (at_ < line_.size()) TakeNext();
    EndCommand();
    return std::move(commands_);
  }

 private:
  void TakeNext() {
    const char c = line_[at_++];
    if (c == '\'' || c == '"') return TakeQuoted(c);
    if (c == '\\') return TakeEscaped();
    if (c == ' ' || c == '\t' || c == '\r') return EndWord();
    if (c == '\n' || c == ';' || c == '&' || c == '|') return EndCommand();
    if (c == '<' || c == '>') return SkipRedirection();
    if (c == '#' && !word_) return SkipComment();
    Append(c);
  }

  void Append(char c) { word_.emplace(word_.value_or("")).push_back(c); }

  void TakeEscaped() {
    if (at_ == line_.size()) return;
    const char c = line_[at_++];
    if (c != '\n') Append(c);
  }

  void TakeQuoted(char quote) {
    const std::size_t begin = at_;
    if (!word_) word_.emplace();
    while (at_ < line_.size()) {
      const char c = line_[at_++];
      if (c == quote) return;
      const bool escapes = quote == '"' && c == '\\' && at_ < line_.size() &&
                           std::string_view("\"\\$`\n").find(line_[at_]) != std::string_view::npos;
      if (!escapes) {
        Append(c);
      } else {
        TakeEscaped();
      }
    }
    throw InputError(InputError::Kind::kUsage, where_,
                     std::string("the quote ") + quote + " of character " + std::to_string(begin) +
                         " is not closed; allowed: a command line as a shell takes it");
  }

  // "2>&1", ">> log": the number in front belongs to it, and so does the next word.
  void SkipRedirection() {
    if (word_ && word_->find_first_not_of("0123456789") == std::string::npos) word_.reset();
    EndWord();
    at_ = std::min(line_.find_first_not_of("<>&| \t", at_), line_.size());
    at_ = std::min(line_.find_first_of(" \t\n;&|", at_), line_.size());
  }

  void SkipComment() { at_ = std::min(line_.find('\n', at_), line_.size()); }

  void EndWord() {
    if (word_) words_.push_back(*std::move(word_));
    word_.reset();
  }

  void EndCommand() {
    EndWord();
    if (!words_.empty()) commands_.push_back(std::move(words_));
    words_.clear();
  }

  const std::string& where_;
  std::string_view line_;
  std::size_t at_ = 0;
  std::optional<std::string> word_;  // an empty one was quoted
  std::vector<std::string> words_;
  std::vector<std::vector<std::string>> commands_;
};

}  // namespace

std::vector<std::vector<std::string>> ShellCommands(const std::string& where,
                                                    std::string_view line) {
  return ShellReader(where, line).Read();
}

}  // namespace twin::apps
