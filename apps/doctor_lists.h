// The tables of `twinserve doctor --list`.
#pragma once

#include <cstdint>
#include <ostream>

namespace twin::apps {

enum class DoctorList : std::uint8_t {
  kNone,
  kModels,
  kHardware,
  kServers,
  kPolicies,
  kCostModels,
  kConfiguration,  // docs/configuration.md
};

void PrintList(DoctorList list, std::ostream& out);

}  // namespace twin::apps
