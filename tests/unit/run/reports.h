// A control that keeps what it is told.
#pragma once

#include <string>
#include <vector>

#include "run/run_control.h"

namespace twin::run {

class Reports : public RunControl {
 public:
  void OnWarning(const std::string& text) override { warnings.push_back(text); }
  void OnNote(const std::string& text) override { notes.push_back(text); }

  std::vector<std::string> warnings;
  std::vector<std::string> notes;
};

}  // namespace twin::run
