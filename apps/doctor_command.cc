// twinserve doctor: what is there on this machine.
#include <filesystem>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/version.h"
#include "core/model_presets.h"
#include "exec/device_probe.h"
#include "kernels/cpu_features.h"
#include "proto/hardware_file.h"

namespace twin::apps {
namespace {

using nlohmann::ordered_json;

ordered_json CudaJson(const exec::CudaStatus& cuda) {
  ordered_json json{{"usable", cuda.usable()}, {"reason", cuda.reason}};
  json["driver"] = exec::CudaVersionText(cuda.driver_version);
  json["runtime"] = exec::CudaVersionText(cuda.runtime_version);
  json["devices"] = ordered_json::array();
  for (const exec::CudaDevice& device : cuda.devices) {
    json["devices"].push_back({{"name", device.name},
                               {"compute_major", device.compute_major},
                               {"compute_minor", device.compute_minor},
                               {"multiprocessors", device.multiprocessors},
                               {"total_bytes", device.total_bytes}});
  }
  return json;
}

ordered_json LibraryJson(const exec::LibraryStatus& library) {
  return {{"usable", library.usable()}, {"version", library.version}, {"reason", library.reason}};
}

void PrintLibrary(const char* name, const exec::LibraryStatus& library) {
  std::cout << name << (library.usable() ? library.version : "none: " + library.reason) << "\n";
}

void PrintText(const exec::DeviceProbe& probe) {
  std::cout << "program   twinserve " << kVersion << " (" << kCommit << (kDirty ? ", changed" : "")
            << "), " << kBuildType << ", " << kCompiler << "\n"
            << "cpu       " << kernels::Describe(kernels::DetectCpu()) << "\n";
  if (probe.cuda.usable()) {
    for (const exec::CudaDevice& device : probe.cuda.devices) {
      std::cout << "cuda      " << device.name << ", sm_" << device.compute_major
                << device.compute_minor << ", " << device.total_bytes << " bytes\n";
    }
  } else {
    std::cout << "cuda      none: " << probe.cuda.reason << "\n";
  }
  PrintLibrary("nccl      ", probe.nccl);
  PrintLibrary("mpi       ", probe.mpi);
  std::cout << "hardware ";
  for (const std::string_view name : HardwarePresetNames()) std::cout << " " << name;
  std::cout << "\nmodels   ";
  for (const std::string_view name : ModelPresetNames()) std::cout << " " << name;
  std::cout << "\n";
}

void Doctor(const std::string& format) {
  const exec::DeviceProbe probe = exec::ProbeDevices();
  if (format == "table") {
    PrintText(probe);
    return;
  }
  const kernels::CpuFeatures cpu = kernels::DetectCpu();
  ordered_json json;
  json["version"] = kVersion;
  json["commit"] = kCommit;
  json["build_type"] = kBuildType;
  json["cpu"] = {{"model", cpu.model},
                 {"usable_cores", cpu.usable_cores},
                 {"avx2_fma", cpu.avx2_fma},
                 {"avx512f", cpu.avx512f},
                 {"avx512_bf16", cpu.avx512_bf16},
                 {"avx512_vnni", cpu.avx512_vnni}};
  json["cuda"] = CudaJson(probe.cuda);
  json["nccl"] = LibraryJson(probe.nccl);
  json["mpi"] = LibraryJson(probe.mpi);
  std::cout << json.dump(2) << "\n";
}

}  // namespace

void AddDoctorCommand(CLI::App& app, CommandContext& /*context*/) {
  auto format = std::make_shared<std::string>("table");
  CLI::App* command = app.add_subcommand("doctor", "What is there: CPU features, CUDA, NCCL, MPI");
  command->add_option("--format", *format, "Form of the answer")
      ->check(CLI::IsMember({"table", "json"}));
  command->callback([format] { Doctor(*format); });
}

}  // namespace twin::apps
