// Data sheets of devices, by name or from a file.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/hardware_spec.h"

namespace twin {

// The data sheet sim/devices/hardware/NAME.textproto, embedded at build time. Throws
// InputError(kUsage) with the nearest name and all names if `name` is unknown.
HardwareSpec HardwarePreset(std::string_view name);

// The data sheet of a file if `name_or_path` has a '/', else of a preset. Capitals, spaces, dashes
// and "NVIDIA" do not count ("RTX4090"), and names of drivers and of public data sets are known
// ("NVIDIA H100 80GB HBM3", "h100_sxm"). Throws as HardwarePreset() and ReadHardwareFile().
HardwareSpec HardwareFromNameOrFile(const std::string& name_or_path);

// The preset that a name in any such spelling means; empty if there is none.
std::string_view PresetOfDevice(std::string_view name);

// The preset that describes a system of aiconfigurator's database, such as "a100_sxm"; empty if
// there is none.
std::string_view PresetOfAiconfigurator(std::string_view system);

// All names, sorted.
std::span<const std::string_view> HardwarePresetNames();

// Throws InputError(kUsage) with file, position and field if the file is not a Hardware message or
// Validate(HardwareSpec) refuses it.
HardwareSpec ReadHardwareFile(const std::filesystem::path& path);

}  // namespace twin
