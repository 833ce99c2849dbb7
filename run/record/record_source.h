// The interface of recorded runs that are read from their beginning.
#pragma once

#include "sched/event.h"
#include "sched/kv_transfer.h"
#include "sched/step_plan.h"

namespace twin {

// The order of a record: an instant, the plans launched at it, the transfers begun at it, the next
// instant, ...
class RecordSource {
 public:
  virtual ~RecordSource() = default;

  // Moves to the next instant and skips plans and transfers that were not read; false at the end of
  // the record. The contents of its spans stay valid until the next call.
  virtual bool NextInstant(Instant& instant) = 0;

  // The next plan launched at the latest instant, or nullptr. Stays valid until the next call of
  // either function.
  virtual const StepPlan* NextPlan() = 0;

  // The next transfer begun at the latest instant, or nullptr. REQUIRES: its plans have been read.
  virtual const KvTransfer* NextTransfer() { return nullptr; }
};

}  // namespace twin
