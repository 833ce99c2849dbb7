// Hardware specs by name or from a file.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

#include "core/hardware_spec.h"

namespace twin {

// The spec of sim/hardware/NAME.textproto as it was when the program was built. Throws
// InputError(kUsage) with the nearest name and all names if there is none.
HardwareSpec HardwarePreset(std::string_view name);

// All names, sorted.
std::span<const std::string_view> HardwarePresetNames();

// Throws InputError(kUsage) naming file, place and field for what is no hardware spec, and for a
// spec that Validate(HardwareSpec) refuses.
HardwareSpec ReadHardwareFile(const std::filesystem::path& path);

}  // namespace twin
