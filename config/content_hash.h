// A hash of the files that a configuration names.
#pragma once

#include <cstdint>
#include <vector>

#include "config/overlay.h"

namespace twin {

namespace proto {
class Experiment;
}  // namespace proto

// The files that an experiment names: the results of FilesNamedIn(), the config.json of a model
// that is named by its folder, and the folder of a profile (cost.profile.profile).
std::vector<InputFile> InputsNamedIn(const proto::Experiment& message);

// A 64-bit hash of all bytes of the file and the name of its field; for a folder, of the files of
// its profile. Cost: reads all files. Throws InputError (usage) with the field and the path if
// something cannot be read.
std::uint64_t ContentHash(const InputFile& file);

}  // namespace twin
