#include "apps/serve/service/draft_counts.h"

#include <cstddef>

namespace twin::run {

void CountDrafts(const EndedStep& step, DraftCounts& counts) {
  const ItemOutcome* outcome = step.outcomes.data();
  const ItemOutcome* const end = outcome + step.outcomes.size();
  for (const WorkItem& item : step.plan.work) {
    // An item has an outcome only if it is not the expected one: one token and no draft accepted.
    const bool told = outcome != end && outcome->request == item.request;
    const auto accepted = static_cast<std::size_t>(told ? outcome->accepted_drafts : 0);
    if (told) ++outcome;
    if (item.drafts == 0 || item.phase != Phase::kDecode) continue;
    ++counts.drafts;
    counts.tokens += item.drafts;
    counts.accepted += static_cast<std::int64_t>(accepted);
    if (counts.accepted_at.size() < item.drafts) counts.accepted_at.resize(item.drafts);
    for (std::size_t place = 0; place < accepted; ++place) ++counts.accepted_at[place];
  }
}

}  // namespace twin::run
