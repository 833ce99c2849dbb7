#include "apps/terminal_control.h"

#include <iostream>

namespace twin::apps {

void TerminalControl::OnProgress(std::string_view what, std::uint64_t done, std::uint64_t total) {
  if (!line_ || what != what_) {
    what_ = what;
    line_.reset();
    line_.emplace(what_, total);
  }
  line_->Show(done);
}

void TerminalControl::OnWarning(const std::string& text) {
  line_.reset();
  std::cerr << "warning: " << text << "\n";
}

void TerminalControl::OnNote(const std::string& text) {
  line_.reset();
  std::cerr << text << "\n";
}

}  // namespace twin::apps
