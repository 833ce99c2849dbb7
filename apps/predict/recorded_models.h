// Fits the corrections of sim/devices/recorded_model.h to recorded steps, after the terms of all
// models were fitted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/devices/recorded_model.h"
#include "sim/devices/stage_operations.h"

namespace twin::run {

// A measured step of one of a model's recordings.
struct RecordedStep {
  std::size_t recording = 0;
  sim::StepLoad load;
  double log_ratio = 0;  // measured over predicted time of its operations
};

// Sets the ratios and the range of `model` to what `steps` say. At each number of rows, from 64 on
// in quarters of an octave, it takes the mean of the recordings' medians. A recording counts there
// as at most 400 steps, and 5 steps without any error are added. Ratios of less than 0.75 %, by
// which recordings of one model and load differ, count as none. Ratios of 1.5 % and more count
// fully, and ratios in between in proportion.
void SetRecordedSteps(std::span<const RecordedStep> steps, sim::RecordedModel& model);

// The squared mean errors of recordings, of steps of one kind.
class LastingErrors {
 public:
  void Add(bool held_out, double error);

  [[nodiscard]] bool any() const { return fitted_.count + held_out_.count > 0; }
  // Root mean square of the fitted recordings or of the recordings held out, whichever is more; at
  // least 0.75 %, as several tables may be of one recording.
  [[nodiscard]] double Sd() const;

 private:
  struct Squares {
    double sum = 0;
    double count = 0;
  };

  Squares fitted_;
  Squares held_out_;
};

}  // namespace twin::run
