// Reports of many runs, each text once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "run/run_control.h"

namespace twin::run {

// Passes reports on to another control, which it borrows: each warning and each note once, and only
// the first kTextsMax different texts. Thread safety: as RunControl.
class DistinctReports final : public RunControl {
 public:
  static constexpr std::size_t kTextsMax = 20;

  explicit DistinctReports(RunControl& control) : control_(control) {}

  void OnProgress(std::string_view what, std::uint64_t done, std::uint64_t total) override {
    control_.OnProgress(what, done, total);
  }
  void OnProgressEnd() override { control_.OnProgressEnd(); }
  void OnWarning(const std::string& text) override {
    if (IsNew(text)) control_.OnWarning(text);
  }
  void OnNote(const std::string& text) override {
    if (IsNew(text)) control_.OnNote(text);
  }
  [[nodiscard]] bool StopRequested() const override { return control_.StopRequested(); }

  // Says how many texts were left out. To be called at the end.
  void Finish();

 private:
  bool IsNew(const std::string& text);

  RunControl& control_;
  std::set<std::string> texts_;  // texts that were passed on
  std::size_t left_out_ = 0;
};

}  // namespace twin::run
