// provenance.json: everything that a run's results came from.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lab/real/machine_load.h"
#include "proto/experiment_config.h"

namespace twin::lab {

// What only real runs have.
struct RealProvenance {
  std::filesystem::path weights;                       // a model directory; empty: dummy weights
  std::optional<std::filesystem::path> draft_weights;  // likewise, of the draft model if any
  bool on_cuda = false;
  std::optional<MachineLoad> load;
};

// Program, build, machine, command line, seed, hash of the resolved config, and every input file
// with its hash. Real runs add the weights ("dummy", or the files with hashes of their sizes and
// ends), those of a draft model likewise, the load of the machine, and on CUDA the GPUs with driver
// and runtime versions. Reads files of up to 64 MiB completely and 2 MiB of larger ones.
std::string ProvenanceJson(const ExperimentConfig& config, const std::string& resolved,
                           const std::vector<std::string>& command_line,
                           const std::optional<RealProvenance>& real);

// 16 hexadecimal digits. `whole` is false for files above 64 MiB, of which only the size, the first
// and the last MiB are hashed. `hex` is empty if the file cannot be read.
struct FileHash {
  std::string hex;
  bool whole = true;
};
FileHash HashOfFile(const std::filesystem::path& path);

}  // namespace twin::lab
