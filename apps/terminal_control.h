// RunControl of the command line: reports on stderr, and Ctrl-C.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "apps/interrupt.h"
#include "apps/progress.h"
#include "run/run_control.h"

namespace twin::apps {

// Shows one progress line at a time; warnings and notes are separate lines. Never asks to stop, so
// Ctrl-C ends the process: for work that has nothing to keep.
class TerminalReports : public run::RunControl {
 public:
  void OnProgress(std::string_view what, std::uint64_t done, std::uint64_t total) final;
  void OnProgressEnd() final { line_.reset(); }
  void OnWarning(const std::string& text) final;
  void OnNote(const std::string& text) final;

 private:
  std::string what_;
  std::optional<Progress> line_;
};

// During its lifetime, the first SIGINT or SIGTERM asks the work to stop and to keep its results,
// and a second one ends the process. At most one exists at a time.
class TerminalControl final : public TerminalReports {
 public:
  [[nodiscard]] bool StopRequested() const override { return InterruptGuard::interrupted(); }

 private:
  InterruptGuard guard_;
};

}  // namespace twin::apps
