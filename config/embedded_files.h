// Files of the tree that are part of the program.
#pragma once

#include <span>

#include "core/files/embedded_file.h"

namespace twin {

// The data sheets sim/devices/hardware/DEVICE.textproto, sorted by name.
std::span<const EmbeddedFile> HardwareTexts();

// The files PART.binpb of the profiles sim/devices/profiles/DEVICE/, sorted by device: the
// serialized messages of their texts.
std::span<const EmbeddedFile> ProfileMessages();

// The files config/servers/settings/NAME.csv.
std::span<const EmbeddedFile> ServerSettingTexts();

// One file: the serialized FileDescriptorSet of all schemas, comments included.
std::span<const EmbeddedFile> SchemaDescriptors();

}  // namespace twin
