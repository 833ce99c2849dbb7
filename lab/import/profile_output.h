// Writes the files of a profile that an import made.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "lab/run_control.h"
#include "proto/profile_file.h"

namespace twin::lab {

// The same part in less space: repeated `rows` as one list, and without fields of attention tables
// that have their defaults. REQUIRES: `text` ends with a line break, and holds none within values.
std::string CompactProfileText(std::string_view text);

// Writes `text` as `out`/`device`/FileName(part), with its folder, and reports it as a note.
void WriteImportedPart(const std::filesystem::path& out, std::string_view device, ProfilePart part,
                       const std::string& text, RunControl& control);

}  // namespace twin::lab
