// The files of sim/devices/profiles/, embedded by embed_profiles.cmake.
#pragma once

#include <span>
#include <string_view>

namespace twin {

struct ProfileText {
  std::string_view device;  // the folder
  std::string_view file;    // with its extension
  std::string_view bytes;   // text, or gzip of it
};

// Sorted by device.
std::span<const ProfileText> ProfileTexts();

}  // namespace twin
