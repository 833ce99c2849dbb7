// Files of the tree that are part of the program.
#pragma once

#include <span>

#include "core/files/embedded_file.h"

namespace twin {

// The data sheets sim/devices/hardware/DEVICE.textproto, sorted by name.
std::span<const EmbeddedFile> HardwareTexts();

// The files of the profiles sim/devices/profiles/DEVICE/, sorted by device. Text, or gzip of it.
std::span<const EmbeddedFile> ProfileTexts();

// One file: the serialized FileDescriptorSet of all schemas, comments included.
std::span<const EmbeddedFile> SchemaDescriptors();

}  // namespace twin
