// A control that also asks to stop when the time of a search is out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "run/run_control.h"

namespace twin::run {

// Passes reports on to the control of the caller. Borrows both; an empty function: never.
class TimedControl final : public RunControl {
 public:
  TimedControl(RunControl& control, const std::function<bool()>& out_of_time)
      : control_(control), out_of_time_(out_of_time) {}

  void OnProgress(std::string_view what, std::uint64_t done, std::uint64_t total) override {
    control_.OnProgress(what, done, total);
  }
  void OnProgressEnd() override { control_.OnProgressEnd(); }
  void OnWarning(const std::string& text) override { control_.OnWarning(text); }
  void OnNote(const std::string& text) override { control_.OnNote(text); }
  [[nodiscard]] bool StopRequested() const override {
    return control_.StopRequested() || (out_of_time_ && out_of_time_());
  }

 private:
  RunControl& control_;
  const std::function<bool()>& out_of_time_;
};

}  // namespace twin::run
