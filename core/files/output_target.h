// Where data written to a path end up, and partial outputs, whose names end in the number of the
// process that makes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace twin {

struct OutputTarget {
  enum class Kind : std::uint8_t {
    kFile,        // a regular file, or nothing yet: may be replaced by renaming a new file over it
    kStream,      // a device, FIFO or socket: only its data may be written
    kDescriptor,  // an open file of this process, such as /dev/stdout
    kDirectory,
  };
  Kind kind = Kind::kFile;
  std::filesystem::path path;  // with symbolic links followed, even if the last one leads nowhere
  int descriptor = -1;         // set for kDescriptor
};

// Follows the symbolic links of the last component of `path`. Reads the file system; changes
// nothing. Throws std::system_error for links that lead in a circle.
OutputTarget FindOutputTarget(const std::filesystem::path& path);

// The number of a name that is `stem` and a number from 1; nothing for other names.
std::optional<int> NumberAfter(std::string_view stem, std::string_view name);

// True if the process exists on this machine, in this container.
bool ProcessExists(int number);

}  // namespace twin
