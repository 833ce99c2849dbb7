#include "apps/validate/machine_speed.h"

namespace twin::run {

std::optional<MachineSpeed> SpeedDuring(const std::vector<std::unique_ptr<MeasuredRun>>& runs,
                                        const sim::FittedCostConfig& cost) {
  if (runs.empty() || cost.decode_probe_s <= 0 || cost.prefill_probe_s <= 0) return std::nullopt;
  MachineSpeed speed{.decode_slowdown = 0, .prefill_slowdown = 0};
  const auto count = static_cast<double>(runs.size());
  for (const auto& run : runs) {
    if (!run->probes) return std::nullopt;
    speed.decode_slowdown += run->probes->decode_s / cost.decode_probe_s / count;
    speed.prefill_slowdown += run->probes->prefill_s / cost.prefill_probe_s / count;
  }
  return speed;
}

}  // namespace twin::run
