// Experiments, studies and requests that are asked for by name, such as quickstart/vllm_v1.
#pragma once

#include <filesystem>
#include <optional>

namespace twin::apps {

// Names a folder that has `experiments`, such as the Python package's data. Not thread-safe.
void SetDataFolder(std::filesystem::path folder);

// The file that `asked` names. A path of a file names itself. Where there is none, it is looked for
// below `experiments` of the current folder, then in the folder of SetDataFolder() and below its
// `experiments`; the suffix .textproto may be left out. Returns `asked` if nothing was found, so
// that errors say what was asked for. Throws InputError (usage) for a name that no folder
// `experiments` has: with the nearest names, or with where names are looked up.
std::filesystem::path ExperimentFile(const std::filesystem::path& asked);

// The file of the name `asked` below `experiments` of the current folder, or in the folder of
// SetDataFolder() or below its `experiments`; nullopt if there is none.
std::optional<std::filesystem::path> FindExperiment(const std::filesystem::path& asked);

}  // namespace twin::apps
