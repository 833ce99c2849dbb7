// How long the cost model of a deployment takes a recorded step to be.
#pragma once

#include <cstdint>

#include "core/time.h"
#include "run/deployment.h"
#include "sched/step_plan.h"
#include "sim/cost/device_state.h"
#include "traces/step_records.h"

namespace twin::apps {

// How a server measures the time of a step.
enum class StepTiming : std::uint8_t {
  kEndToEnd,  // from the end of the step before, or from its own begin after a rest
  kDevice,    // on the device, without the gap before it
};

// Makes `plan` one step with the record's requests and sums: chunks, contexts and cached tokens are
// as equal as whole numbers allow. A prompt's chunk is taken to be its last one, and the tokens of
// a decode to lie in the cache before the step. REQUIRES: the record has tokens and is not idle.
void SetComposition(const StepRecord& record, StepPlan& plan);

class StepPredictor {
 public:
  // Borrows the deployment. Throws InputError (usage) for replicas that differ, pipeline stages and
  // speculation, of which the records do not tell enough.
  explicit StepPredictor(const run::Deployment& deployment);

  // As SGLang's scheduler times its steps, or that of another server.
  [[nodiscard]] StepTiming timing(const StepRecords& records) const;

  struct Time {
    double seconds = 0;
    double gap_s = 0;  // the visible part of the host's time; not in `seconds` of kDevice
  };
  // The record's step, if it begins at `begin` on a device in `state`. REQUIRES: as SetComposition;
  // begin >= state.changed.
  [[nodiscard]] Time Predict(const StepRecord& record, StepTiming timing, TimePoint begin,
                             const sim::DeviceState& state);
  // Moves `state` to the end of steps like the one of the last Predict().
  void Advance(TimePoint begin, TimePoint end, sim::DeviceState& state) const;

 private:
  [[nodiscard]] double GapOf(TimePoint begin, const sim::DeviceState& state) const;

  const run::Deployment& deployment_;
  StepPlan plan_;
};

}  // namespace twin::apps
