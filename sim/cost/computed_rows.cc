#include "sim/cost/computed_rows.h"

#include <algorithm>

namespace twin::sim {

ComputedRows ComputedRowsOf(const StepTotals& totals, std::span<const std::uint32_t> buckets) {
  const ComputedRows own{static_cast<double>(totals.tokens()),
                         static_cast<double>(totals.emitting_items)};
  if (totals.prefill_items > 0 || totals.decode_items == 0) return own;
  const auto bucket = std::lower_bound(buckets.begin(), buckets.end(), totals.decode_items);
  if (bucket == buckets.end()) return own;
  return {static_cast<double>(*bucket), static_cast<double>(*bucket)};
}

}  // namespace twin::sim
