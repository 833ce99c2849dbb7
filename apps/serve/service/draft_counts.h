// Counts what became of the drafts of speculative decoding.
#pragma once

#include "apps/serve/service/service.h"
#include "run/record/run_listener.h"

namespace twin::run {

// Adds the drafts that the step verified. Drafts of prefills are padding and do not count.
void CountDrafts(const EndedStep& step, DraftCounts& counts);

}  // namespace twin::run
