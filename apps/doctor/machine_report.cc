#include "apps/doctor/machine_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/doctor/program.h"
#include "apps/options.h"
#include "core/input_error.h"
#include "exec/comm/mpi_ranks.h"
#include "exec/cpu/ceilings.h"
#include "exec/cuda/probe.h"
#include "exec/cuda/state_probe.h"
#include "exec/device_probe.h"
#include "kernels/cpu_features.h"
#include "kernels/instruction_set.h"
#include "run/real/model_device.h"

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

ordered_json CudaLibrariesJson() {
  ordered_json json = ordered_json::array();
  for (const exec::CudaLibraryStatus& library : exec::ProbeCudaLibraries()) {
    json.push_back({{"name", library.name},
                    {"usable", library.found.usable()},
                    {"version", library.found.version},
                    {"path", library.path},
                    {"reason", library.found.reason}});
  }
  return json;
}

ordered_json LibraryJson(const exec::LibraryStatus& library) {
  return {{"usable", library.usable()}, {"version", library.version}, {"reason", library.reason}};
}

void PrintLibrary(const char* name, const exec::LibraryStatus& library) {
  std::cout << name << (library.usable() ? library.version : "none: " + library.reason) << "\n";
}

enum class Measure : std::uint8_t { kNothing, kCeilings, kState };

struct MachineArguments {
  run::ModelDevice device = run::ModelDevice::kCpu;  // the device that must be usable
  Measure measure = Measure::kNothing;
  double measure_seconds = 30;
  std::int32_t threads = 0;  // 0 = all cores
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

ordered_json CeilingsJson(const exec::CudaCeilings& ceilings) {
  return {{"device", ceilings.device},
          {"bf16_gemm",
           {{"tflops", ceilings.gemm_flops_per_s * 1e-12}, {"spread", ceilings.gemm_spread}}},
          {"copy",
           {{"bytes", ceilings.copy_bytes},
            {"gb_per_s", ceilings.copy_bytes_per_s * 1e-9},
            {"spread", ceilings.copy_spread}}}};
}

void PrintCeilings(const exec::CudaCeilings& ceilings) {
  std::printf("ceilings  of %s: median, (p90 - p10) / median\n", ceilings.device.c_str());
  std::printf("  bf16 product                   %8.1f TFLOP/s %6.1f %%\n",
              ceilings.gemm_flops_per_s * 1e-12, 100 * ceilings.gemm_spread);
  std::printf("  copy within memory, %5.0f MiB  %8.1f GB/s    %6.1f %%\n",
              static_cast<double>(ceilings.copy_bytes) / (1 << 20),
              ceilings.copy_bytes_per_s * 1e-9, 100 * ceilings.copy_spread);
}

// Rounds to a tenth of a microsecond, so that thousands of times stay readable.
ordered_json Rounded(const std::vector<double>& ms) {
  ordered_json json = ordered_json::array();
  for (const double value : ms) json.push_back(std::round(value * 1e4) * 1e-4);
  return json;
}

ordered_json StateJson(const exec::ProbedDeviceState& state) {
  ordered_json json{{"device", state.device},
                    {"product", {state.tokens, state.outputs, state.inputs}},
                    {"summary", exec::Summarize(state)}};
  json["series"] = ordered_json::array();
  for (const exec::StateSeries& series : state.series) {
    json["series"].push_back({{"name", series.name},
                              {"rest_ms", series.rest_ms},
                              {"rows_before", series.rows},
                              {"begin_ms", series.begin_ms},
                              {"call_begin_ms", Rounded(series.calls.begin_ms)},
                              {"call_ms", Rounded(series.calls.ms)}});
  }
  json["no_clocks"] = state.no_clocks;
  json["clocks"] = ordered_json::array();
  for (const exec::ClockSample& sample : state.clocks) {
    json["clocks"].push_back({std::round(sample.ms * 10) / 10, sample.sm_mhz, sample.memory_mhz,
                              sample.watts, sample.event_reasons});
  }
  json["tiles"] = ordered_json::array();
  for (const exec::TilePoint& tile : state.tiles) {
    json["tiles"].push_back({tile.tokens, tile.outputs, tile.inputs, tile.us});
  }
  return json;
}

void PrintState(const exec::ProbedDeviceState& state) {
  std::cout << fmt::format("state     of {}, products of {} x {} x {}\n", state.device,
                           state.tokens, state.outputs, state.inputs);
  for (const std::string& line : exec::Summarize(state)) std::cout << "  " << line << "\n";
}

// The kinds of ranks over which this build can divide a model.
std::string RankKinds() {
  const std::string mpi = exec::BuiltWithMpi();
  return "threads of one process" +
         (mpi.empty() ? "; built without MPI" : ", processes of " + mpi + " (mpirun)");
}

void PrintCuda(const exec::CudaStatus& cuda) {
  for (const exec::CudaDevice& device : cuda.devices) {
    std::cout << "cuda      " << device.name << ", sm_" << device.compute_major
              << device.compute_minor << ", " << device.total_bytes << " bytes\n";
  }
  if (!cuda.usable()) std::cout << "cuda      none: " << cuda.reason << "\n";
  if (cuda.driver_version > 0) {
    std::cout << "          driver for CUDA " << exec::CudaVersionText(cuda.driver_version) << "\n";
  }
  if (cuda.runtime_version == 0) return;
  std::cout << "          built with CUDA " << exec::CudaVersionText(cuda.runtime_version)
            << "; attention kernels:";
  for (const std::string& kernel : exec::CudaAttentionKernels()) std::cout << " " << kernel;
  std::cout << "\n";
  for (const exec::CudaLibraryStatus& library : exec::ProbeCudaLibraries()) {
    std::cout << "          " << library.name << " (" << library.use << "): "
              << (library.found.usable() ? library.found.version + ", " + library.path
                                         : "none: " + library.found.reason)
              << "\n";
  }
}

void PrintText(const exec::DeviceProbe& probe) {
  std::cout << ProgramLine() << "cpu       " << kernels::Describe(kernels::DetectCpu()) << "\n"
            << "kernels   " << kernels::Name(kernels::BestInstructionSet()) << "\n";
  PrintCuda(probe.cuda);
  PrintLibrary("nccl      ", probe.nccl);
  PrintLibrary("mpi       ", probe.mpi);
  std::cout << "ranks     " << RankKinds() << "\n";
  std::cout << "presets   see --list models and --list hardware\n";
}

// Measurements of the device that was asked for.
struct Ceilings {
  std::optional<exec::CpuCeilings> cpu;
  std::optional<exec::CudaCeilings> cuda;
  std::optional<exec::ProbedDeviceState> state;
};

Ceilings MeasuredCeilings(const MachineArguments& arguments) {
  Ceilings ceilings;
  if (arguments.measure == Measure::kNothing) return ceilings;
  if (arguments.measure == Measure::kState) {
    if (arguments.device != run::ModelDevice::kCuda) {
      throw InputError(InputError::Kind::kUsage, "--measure state", "needs --device cuda");
    }
    ceilings.state =
        exec::MeasureDeviceState(run::CudaDeviceOf(0), {.seconds = arguments.measure_seconds});
    return ceilings;
  }
  if (arguments.device == run::ModelDevice::kCuda) {
    ceilings.cuda = exec::MeasureCudaCeilings(run::CudaDeviceOf(0));
    return ceilings;
  }
  const auto machine = static_cast<std::int32_t>(std::thread::hardware_concurrency());
  ceilings.cpu =
      exec::MeasureCeilings(arguments.threads > 0 ? arguments.threads : std::max(machine, 1));
  return ceilings;
}

void PrintJson(const exec::DeviceProbe& probe, const Ceilings& ceilings) {
  const kernels::CpuFeatures cpu = kernels::DetectCpu();
  ordered_json json = ProgramJson();
  json["cpu"] = {{"model", cpu.model},
                 {"usable_cores", cpu.usable_cores},
                 {"avx2_fma", cpu.avx2_fma},
                 {"avx512f", cpu.avx512f},
                 {"avx512_bf16", cpu.avx512_bf16},
                 {"avx512_vnni", cpu.avx512_vnni}};
  json["kernels"] = kernels::Name(kernels::BestInstructionSet());
  json["cuda"] = CudaJson(probe.cuda);
  json["cuda"]["attention"] = exec::CudaAttentionKernels();
  json["cuda"]["libraries"] = CudaLibrariesJson();
  json["nccl"] = LibraryJson(probe.nccl);
  json["mpi"] = LibraryJson(probe.mpi);
  json["built_with_mpi"] = exec::BuiltWithMpi();
  if (ceilings.cpu) json["ceilings"] = CeilingsJson(*ceilings.cpu);
  if (ceilings.cuda) json["cuda"]["ceilings"] = CeilingsJson(*ceilings.cuda);
  if (ceilings.state) json["cuda"]["state"] = StateJson(*ceilings.state);
  std::cout << json.dump(2) << "\n";
}

void Report(const MachineArguments& arguments, bool as_json) {
  run::RequireDevice("--device", arguments.device, "cpu");
  const exec::DeviceProbe probe = exec::ProbeDevices();
  const Ceilings ceilings = MeasuredCeilings(arguments);
  if (as_json) {
    PrintJson(probe, ceilings);
    return;
  }
  PrintText(probe);
  std::cout.flush();
  if (ceilings.cpu) PrintCeilings(*ceilings.cpu);
  if (ceilings.cuda) PrintCeilings(*ceilings.cuda);
  if (ceilings.state) PrintState(*ceilings.state);
}

}  // namespace

MachineReport AddMachineReport(CommandParser command) {
  auto arguments = std::make_shared<MachineArguments>();
  command.AddEnumOption<run::ModelDevice>(
      "--device", arguments->device,
      {{"cpu", run::ModelDevice::kCpu}, {"cuda", run::ModelDevice::kCuda}},
      "Fail unless models can run on this device; --measure measures it (default: cpu)");
  // CLI11 reads an empty text if the option has no value.
  command
      .AddEnumOption<Measure>(
          "--measure", arguments->measure,
          {{"ceilings", Measure::kCeilings}, {"state", Measure::kState}, {"", Measure::kCeilings}},
          "Also measure the device. ceilings (default): multiply-adds and memory reads of a CPU, a "
          "large matrix product and copies of a CUDA device; state: how the speed of a CUDA device "
          "depends on its recent load")
      .ValueName("ceilings|state")
      .ValueOptional();
  command
      .AddOption("--measure-seconds", arguments->measure_seconds,
                 "Length of --measure state (default: 30)")
      .InRange(0.01, 600.0);
  command.AddOption("--threads", arguments->threads, "Threads for --measure (default: all cores)")
      .InRange(1, 1024);
  return [arguments](bool as_json) { Report(*arguments, as_json); };
}

}  // namespace twin::apps
