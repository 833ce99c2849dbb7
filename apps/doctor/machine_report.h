// Report on this machine: its devices, and how fast they are. In builds with TWIN_EXEC.
#pragma once

#include <functional>

#include "apps/options.h"

namespace twin::apps {

// Prints the program, the machine and the requested measurements, as text or as JSON. Throws
// InputError (usage) if the device that the options name cannot be used.
using MachineReport = std::function<void(bool as_json)>;

// Adds the options that name and measure a device.
MachineReport AddMachineReport(CommandParser command);

}  // namespace twin::apps
