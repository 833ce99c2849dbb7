#include "apps/terminal_control.h"

#include <iostream>

namespace twin::apps {

void TerminalReports::OnProgress(std::string_view what, std::uint64_t done, std::uint64_t total) {
  if (!line_ || what != what_) {
    what_ = what;
    line_.reset();
    line_.emplace(what_, total);
  }
  line_->Show(done);
}

void TerminalReports::OnWarning(const std::string& text) {
  line_.reset();
  std::cerr << "warning: " << text << "\n";
}

void TerminalReports::OnNote(const std::string& text) {
  line_.reset();
  std::cerr << text << "\n";
}

}  // namespace twin::apps
