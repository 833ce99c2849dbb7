// Data sheets of devices, by name or from a file.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/hardware_spec.h"

namespace twin {

// The data sheet sim/hardware/NAME.textproto, embedded at build time. Throws InputError(kUsage)
// with the nearest name and all names if `name` is unknown.
HardwareSpec HardwarePreset(std::string_view name);

// The data sheet that `--hardware` and `system.hardware` mean: a file if `name_or_path` has a '/'.
HardwareSpec HardwareFromNameOrFile(const std::string& name_or_path);

// All names, sorted.
std::span<const std::string_view> HardwarePresetNames();

// Throws InputError(kUsage) with file, position and field if the file is not a Hardware message or
// Validate(HardwareSpec) refuses it.
HardwareSpec ReadHardwareFile(const std::filesystem::path& path);

}  // namespace twin
