// The hardware files of sim/devices/hardware/, embedded by embed_hardware.cmake.
#pragma once

#include <span>
#include <string_view>

namespace twin {

struct HardwareText {
  std::string_view name;
  std::string_view text;
};

// Sorted by name.
std::span<const HardwareText> HardwareTexts();

}  // namespace twin
