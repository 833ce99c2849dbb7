// Counts what became of the drafts of speculative decoding.
#pragma once

#include "lab/serve/service.h"
#include "record/run_listener.h"

namespace twin::lab {

// Adds the drafts that the step verified. Those of prefills are padding and do not count.
void CountDrafts(const EndedStep& step, DraftCounts& counts);

}  // namespace twin::lab
