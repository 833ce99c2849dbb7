// Reports on stderr, and Ctrl-C: the RunControl of the command line.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "apps/interrupt.h"
#include "apps/progress.h"
#include "lab/run_control.h"

namespace twin::apps {

// Shows one progress line at a time; warnings and notes are separate lines. During its lifetime,
// the first SIGINT or SIGTERM asks the work to stop, and a second one ends the process. At most one
// exists at a time.
class TerminalControl final : public lab::RunControl {
 public:
  void OnProgress(std::string_view what, std::uint64_t done, std::uint64_t total) override;
  void OnProgressEnd() override { line_.reset(); }
  void OnWarning(const std::string& text) override;
  void OnNote(const std::string& text) override;
  [[nodiscard]] bool StopRequested() const override { return InterruptGuard::interrupted(); }

 private:
  InterruptGuard guard_;
  std::string what_;
  std::optional<Progress> line_;
};

}  // namespace twin::apps
