#include "apps/validate/run_curves.h"

namespace twin::run {

void RunCurves::OnLoad(TimePoint from, TimePoint /*to*/, const Load& load) {
  if (!load_.empty() && load_.back().load == load) return;
  load_.push_back({Seconds(from), load});
}

void RunCurves::OnEnded(const RequestLife& life) {
  if (life.status != RequestStatus::kCompleted || !life.measured) return;
  ttft_ms_.push_back(Milliseconds(life.first_received() - life.arrival));
  e2el_ms_.push_back(Milliseconds(life.last_received() - life.arrival));
  if (!life.has_gaps()) return;
  tpot_ms_.push_back(Milliseconds(life.ended - life.first_token) / (life.output_tokens - 1));
}

}  // namespace twin::run
