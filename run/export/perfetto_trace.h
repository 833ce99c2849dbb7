// Several recorded runs as one picture.
#pragma once

#include <filesystem>
#include <span>

namespace twin::run {

// Writes one Perfetto trace with a process per run directory, named after the directory, all on one
// time axis that begins with each run. Real runs show the parts of their steps.
// Cost: memory for one run at a time. Throws InputError (usage) if a directory has no record.pb,
// (data) if a file is damaged.
void WritePerfettoTrace(const std::filesystem::path& out,
                        std::span<const std::filesystem::path> runs);

}  // namespace twin::run
