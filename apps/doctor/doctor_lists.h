// The tables of `twinserve doctor --list`.
#pragma once

#include <cstdint>
#include <ostream>

namespace twin::apps {

enum class DoctorList : std::uint8_t {
  kNone,
  kModels,
  kFamilies,  // the table of docs/models.md
  kHardware,
  kServers,
  kServerDefaults,  // docs/server-defaults.md
  kServerSettings,  // docs/server-settings.md
  kPolicies,
  kCostModels,
  kConfiguration,  // docs/configuration.md
  kMetrics,        // the tables of docs/metrics.md on summary.json
};

void PrintList(DoctorList list, std::ostream& out);

// Prints the list as an array of objects, in base units; 0 = no such unit. Throws InputError
// (usage) for kFamilies, kConfiguration, kMetrics, kServerDefaults and kServerSettings, which are
// pages.
void PrintListJson(DoctorList list, std::ostream& out);

}  // namespace twin::apps
