// Writes provenance.json: everything that a run's results depend on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/experiment_config.h"
#include "run/machine_load.h"

namespace twin::run {

struct MachineGpu {
  std::string name;
  std::string compute_capability;  // such as "9.0"
  std::int64_t memory_bytes = 0;
};

// The GPUs that a run took, in the order of its ranks. Versions of CUDA are such as "13.0".
struct MachineGpus {
  std::vector<MachineGpu> devices;
  std::string driver_cuda;   // the highest version that the driver supports
  std::string runtime_cuda;  // what this program was built with
};

// Provenance that only real runs have.
struct RealProvenance {
  std::filesystem::path weights;                       // a model directory; empty: dummy weights
  std::optional<std::filesystem::path> draft_weights;  // of the draft model, if any
  std::optional<MachineGpus> gpus;                     // of a run on CUDA
  std::optional<MachineLoad> load;
};

// Program, build, machine, command line, seed, hash of the resolved config, and every input file
// with its hash. Real runs add the weights of the model and of a draft model ("dummy", or the files
// with hashes of their sizes and ends), the load of the machine, and on CUDA the GPUs with driver
// and runtime versions. Reads files of up to 64 MiB completely, and 2 MiB of larger files.
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

}  // namespace twin::run
