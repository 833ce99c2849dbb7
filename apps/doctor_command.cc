// twinserve doctor: what is there on this machine.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>

#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/version.h"
#include "core/model_presets.h"
#include "exec/comm/mpi_ranks.h"
#include "exec/cpu/ceilings.h"
#include "exec/device_probe.h"
#include "kernels/cpu_features.h"
#include "kernels/instruction_set.h"
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

struct DoctorArguments {
  std::string format = "table";
  bool measure = false;
  std::int32_t threads = 0;  // 0: as many as the machine has
};

ordered_json CeilingsJson(const exec::CpuCeilings& ceilings) {
  ordered_json json{{"threads", ceilings.threads}, {"fp32_multiply_add", ordered_json::array()}};
  for (const exec::ComputeCeiling& compute : ceilings.compute) {
    json["fp32_multiply_add"].push_back({{"instruction_set", kernels::Name(compute.set)},
                                         {"gflops", compute.flops_per_s * 1e-9},
                                         {"gflops_best", compute.flops_per_s_best * 1e-9},
                                         {"spread", compute.spread}});
  }
  json["read"] = {{"bytes", ceilings.read_bytes},
                  {"gb_per_s", ceilings.read_bytes_per_s * 1e-9},
                  {"gb_per_s_best", ceilings.read_bytes_per_s_best * 1e-9},
                  {"spread", ceilings.read_spread}};
  return json;
}

void PrintCeilings(const exec::CpuCeilings& ceilings) {
  std::printf("ceilings  of %d threads: median, best of all repeats, (p90 - p10) / median\n",
              ceilings.threads);
  for (const exec::ComputeCeiling& compute : ceilings.compute) {
    std::printf("  fp32 multiply-add, %-11s %8.1f GFLOP/s %8.1f %6.1f %%\n",
                std::string(kernels::Name(compute.set)).c_str(), compute.flops_per_s * 1e-9,
                compute.flops_per_s_best * 1e-9, 100 * compute.spread);
  }
  std::printf("  read, array of %5.0f MiB       %8.1f GB/s    %8.1f %6.1f %%\n",
              static_cast<double>(ceilings.read_bytes) / (1 << 20),
              ceilings.read_bytes_per_s * 1e-9, ceilings.read_bytes_per_s_best * 1e-9,
              100 * ceilings.read_spread);
}

// How this build can divide a model.
std::string RankKinds() {
  const std::string mpi = exec::BuiltWithMpi();
  return "threads of one process" +
         (mpi.empty() ? "; built without MPI" : ", processes of " + mpi + " (mpirun)");
}

void PrintText(const exec::DeviceProbe& probe) {
  std::cout << "program   twinserve " << kVersion << " (" << kCommit << (kDirty ? ", changed" : "")
            << "), " << kBuildType << ", " << kCompiler << "\n"
            << "cpu       " << kernels::Describe(kernels::DetectCpu()) << "\n"
            << "kernels   " << kernels::Name(kernels::BestInstructionSet()) << "\n";
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
  std::cout << "ranks     " << RankKinds() << "\n";
  std::cout << "hardware ";
  for (const std::string_view name : HardwarePresetNames()) std::cout << " " << name;
  std::cout << "\nmodels   ";
  for (const std::string_view name : ModelPresetNames()) std::cout << " " << name;
  std::cout << "\n";
}

void Doctor(const DoctorArguments& arguments) {
  const exec::DeviceProbe probe = exec::ProbeDevices();
  std::optional<exec::CpuCeilings> ceilings;
  if (arguments.measure) {
    const auto machine = static_cast<std::int32_t>(std::thread::hardware_concurrency());
    ceilings =
        exec::MeasureCeilings(arguments.threads > 0 ? arguments.threads : std::max(machine, 1));
  }
  if (arguments.format == "table") {
    PrintText(probe);
    std::cout.flush();
    if (ceilings) PrintCeilings(*ceilings);
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
  json["kernels"] = kernels::Name(kernels::BestInstructionSet());
  json["cuda"] = CudaJson(probe.cuda);
  json["nccl"] = LibraryJson(probe.nccl);
  json["mpi"] = LibraryJson(probe.mpi);
  json["built_with_mpi"] = exec::BuiltWithMpi();
  if (ceilings) json["ceilings"] = CeilingsJson(*ceilings);
  std::cout << json.dump(2) << "\n";
}

}  // namespace

void AddDoctorCommand(CLI::App& app, CommandContext& /*context*/) {
  auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* command = app.add_subcommand("doctor", "What is there: CPU features, CUDA, NCCL, MPI");
  command->add_option("--format", arguments->format, "Form of the answer")
      ->check(CLI::IsMember({"table", "json"}));
  command->add_flag("--measure", arguments->measure,
                    "Also measure what the CPU can do at most: multiply-adds, reading memory");
  command->add_option("--threads", arguments->threads, "Default: as many as the machine has")
      ->check(CLI::Range(1, 1024));
  command->callback([arguments] { Doctor(*arguments); });
}

}  // namespace twin::apps
