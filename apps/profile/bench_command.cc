// twinserve bench: speed of the executor, prefill and decode, beside the machine's ceilings.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/measured_model_options.h"
#include "apps/terminal_control.h"
#include "config/models/model_names.h"
#include "core/input_error.h"
#include "exec/comm/mpi_ranks.h"
#include "exec/cpu/ceilings.h"
#include "exec/cuda/probe.h"
#include "exec/profile/model_work.h"
#include "exec/profile/spread.h"
#include "exec/profile/synthetic_steps.h"
#include "kernels/instruction_set.h"
#include "run/available_memory.h"
#include "run/real/kernel_times.h"
#include "run/real/measured_model.h"
#include "run/real/model_device.h"

namespace twin::apps {
namespace {

struct BenchArguments {
  run::MeasuredModelOptions model;
  std::vector<std::string> dtypes = {""};  // empty = the default of the device
  std::string kv_dtype;                    // empty = the default for the weights
  std::int32_t prefill = 512;
  std::int32_t decode = 32;
  std::vector<std::int32_t> batches = {1, 4, 16};
  std::int32_t context = 128;
  std::int32_t block_size = 16;
  double seconds_max = 20;
  bool ceilings = false;
  std::string kernel_times;  // a file; empty = not measured
  std::string format = "table";
};

struct Measurement {
  std::string phase;
  std::int32_t batch = 0;
  std::int64_t tokens = 0;  // of one repeat
  double flops = 0;         // of one repeat
  double bytes = 0;
  std::int32_t steps = 1;  // of one repeat
  exec::Spread seconds;    // from the launch of steps until their results are on the host
  // Seconds on the device alone, by events. On a CPU, `seconds` without the assembly of inputs.
  exec::Spread device_seconds;
};

exec::RepeatRule RuleOf(const BenchArguments& arguments) {
  return {.count_min = 5,
          .count_max = 40,
          .seconds_max = arguments.seconds_max,
          .relative_error = 0.01};
}

// Times of a number of repeats.
struct StepTimes {
  exec::Spread seconds;
  exec::Spread device_seconds;
};

template <class Run>
StepTimes RepeatSteps(const BenchArguments& arguments, const Run& run) {
  std::vector<double> on_device;
  const std::vector<double> seconds = Repeat(RuleOf(arguments), [&] {
    const StepParts parts = run();
    on_device.push_back(Seconds(parts.device() - parts[StepPart::kBuild]));
    return Seconds(parts.device());
  });
  return {exec::SpreadOf(seconds), exec::SpreadOf(on_device)};
}

Measurement MeasurePrefill(const BenchArguments& arguments, const exec::ModelWork& work,
                           exec::SyntheticSteps& steps) {
  const std::vector<exec::StepItem> items = {exec::ChunkItem(0, arguments.prefill, true)};
  steps.Run(items);  // warms up
  const StepTimes times = RepeatSteps(arguments, [&] { return steps.Run(items); });
  const StepTotals totals = exec::TotalsOf(items);
  return {.phase = "prefill",
          .batch = 1,
          .tokens = totals.tokens(),
          .flops = work.Flops(totals),
          .bytes = work.Bytes(totals),
          .seconds = times.seconds,
          .device_seconds = times.device_seconds};
}

Measurement MeasureDecode(const BenchArguments& arguments, std::int32_t batch,
                          const exec::ModelWork& work, exec::SyntheticSteps& steps) {
  steps.RunDecodes(batch, arguments.context, std::min(arguments.decode, 4));  // warms up
  const StepTimes times = RepeatSteps(
      arguments, [&] { return steps.RunDecodes(batch, arguments.context, arguments.decode); });
  Measurement result{.phase = "decode",
                     .batch = batch,
                     .steps = arguments.decode,
                     .seconds = times.seconds,
                     .device_seconds = times.device_seconds};
  std::vector<exec::StepItem> items(static_cast<std::size_t>(batch),
                                    exec::DecodeItem(arguments.context));
  for (std::int32_t step = 0; step < arguments.decode; ++step) {
    const StepTotals totals = exec::TotalsOf(items);
    result.tokens += totals.tokens();
    result.flops += work.Flops(totals);
    result.bytes += work.Bytes(totals);
    for (exec::StepItem& item : items) ++item.start;
  }
  return result;
}

// The peak rates of the device.
struct DeviceCeilings {
  std::string heading;
  double flops_per_s = 0;
  double bytes_per_s = 0;
};

DeviceCeilings CeilingsOf(const run::MeasuredModelOptions& options) {
  DeviceCeilings result;
  char text[96];
  if (options.device == run::ModelDevice::kCuda) {
    const exec::CudaCeilings cuda = exec::MeasureCudaCeilings(run::CudaDeviceOf(0));
    std::snprintf(text, sizeof text, ": %.1f TFLOP/s bf16, %.1f GB/s copy",
                  cuda.gemm_flops_per_s * 1e-12, cuda.copy_bytes_per_s * 1e-9);
    return {cuda.device + text, cuda.gemm_flops_per_s, cuda.copy_bytes_per_s};
  }
  const std::int32_t threads = run::ThreadsOf(options);
  const exec::CpuCeilings cpu = exec::MeasureCeilings(threads);
  std::snprintf(text, sizeof text, ", %d threads: %.1f GFLOP/s fp32, %.1f GB/s read", threads,
                cpu.flops_per_s_best() * 1e-9, cpu.read_bytes_per_s_best * 1e-9);
  return {std::string(kernels::Name(kernels::BestInstructionSet())) + text, cpu.flops_per_s_best(),
          cpu.read_bytes_per_s_best};
}

class BenchOutput {
 public:
  explicit BenchOutput(const BenchArguments& arguments)
      : json_(arguments.format == "json"),
        device_(arguments.model.device),
        threads_(run::ThreadsOf(arguments.model)),
        fp8_fast_accumulation_(arguments.model.model_options.fp8_fast_accumulation) {
    if (!json_ || arguments.ceilings) ceilings_ = CeilingsOf(arguments.model);
    if (json_) return;
    std::printf("%s\n\n", ceilings_->heading.c_str());
    std::printf("%-5s %-8s %6s %7s %9s %9s %12s %10s %8s %8s %8s %8s %7s\n", "dtype", "phase",
                "batch", "tokens", "step ms", "device ms", "tokens/s", "GFLOP/s", "of peak", "GB/s",
                "of read", "repeats", "spread");
  }

  void Write(DType dtype, const Measurement& m) {
    if (json_) {
      WriteLine(dtype, m);
      return;
    }
    const double seconds = m.seconds.median;
    std::printf(
        "%-5s %-8s %6d %7lld %9.3f %9.3f %12.1f %10.1f %7.0f%% %8.1f %7.0f%% %8lld %6.1f%%\n",
        std::string(twin::Name(dtype)).c_str(), m.phase.c_str(), m.batch,
        static_cast<long long>(m.tokens), 1e3 * seconds / m.steps,
        1e3 * m.device_seconds.median / m.steps, static_cast<double>(m.tokens) / seconds,
        m.flops / seconds * 1e-9, 100 * FlopsShare(m), m.bytes / seconds * 1e-9, 100 * ReadShare(m),
        static_cast<long long>(m.seconds.count), 100 * m.seconds.relative());
    std::fflush(stdout);
  }

 private:
  [[nodiscard]] double FlopsShare(const Measurement& m) const {
    return m.flops / m.seconds.median / ceilings_->flops_per_s;
  }
  [[nodiscard]] double ReadShare(const Measurement& m) const {
    return m.bytes / m.seconds.median / ceilings_->bytes_per_s;
  }

  void WriteLine(DType dtype, const Measurement& m) const {
    const double seconds = m.seconds.median;
    nlohmann::ordered_json line{{"phase", m.phase},
                                {"batch", m.batch},
                                {"tokens", m.tokens},
                                {"tokens_per_s", static_cast<double>(m.tokens) / seconds},
                                {"gflops", m.flops / seconds * 1e-9},
                                {"gb_per_s", m.bytes / seconds * 1e-9},
                                {"step_ms", 1e3 * seconds / m.steps},
                                {"device_ms", 1e3 * m.device_seconds.median / m.steps},
                                {"repeats", m.seconds.count},
                                {"spread", m.seconds.relative()},
                                {"dtype", twin::Name(dtype)},
                                {"fp8_fast_accumulation", fp8_fast_accumulation_},
                                {"device", run::Name(device_)},
                                {"threads", threads_}};
    if (ceilings_) {
      line["ceiling_gflops"] = ceilings_->flops_per_s * 1e-9;
      line["ceiling_gb_per_s"] = ceilings_->bytes_per_s * 1e-9;
      line["flops_share"] = FlopsShare(m);
      line["bandwidth_share"] = ReadShare(m);
    }
    std::cout << line.dump() << std::endl;
  }

  bool json_;
  run::ModelDevice device_;
  std::int32_t threads_;
  bool fp8_fast_accumulation_;
  std::optional<DeviceCeilings> ceilings_;
};

// The number of positions of the longest sequence.
std::int32_t PositionsOf(const BenchArguments& arguments, const ModelConfig& config) {
  const std::int64_t decoded =
      arguments.decode > 0 ? std::int64_t{arguments.context} + arguments.decode : 0;
  const std::int64_t wanted = std::max(std::int64_t{arguments.prefill}, decoded);
  if (wanted <= config.shape.max_position) return static_cast<std::int32_t>(wanted);
  throw InputError(InputError::Kind::kUsage,
                   wanted == arguments.prefill ? "--prefill" : "--context with --decode",
                   std::to_string(wanted) + " tokens in one sequence; the model allows " +
                       std::to_string(config.shape.max_position));
}

exec::SyntheticStepsConfig StepsConfigOf(const BenchArguments& arguments, DType dtype) {
  const std::int32_t batch_max =
      *std::max_element(arguments.batches.begin(), arguments.batches.end());
  const std::int64_t decoded = arguments.decode > 0 ? arguments.context + arguments.decode : 0;
  return {.kv_dtype = run::ParseDTypeOption("--kv-dtype", arguments.kv_dtype,
                                            run::KvFormats(arguments.model.device, dtype)),
          .block_size = arguments.block_size,
          .tokens = std::max(batch_max * decoded, std::int64_t{arguments.prefill}),
          .items = batch_max};
}

void RequireRoomFor(const BenchArguments& arguments, ModelSpec model, DType dtype) {
  const exec::SyntheticStepsConfig steps = StepsConfigOf(arguments, dtype);
  StoreWeightsAs(dtype, model);
  model.kv_dtype = steps.kv_dtype;
  run::RequireRoom(model, exec::CacheBlocks(steps), steps.block_size,
                   run::MemoryOf(arguments.model.device));
}

void TraceKernels(const BenchArguments& arguments, exec::SyntheticSteps& steps,
                  run::KernelTimesFile& file) {
  if (arguments.prefill > 0) {
    const std::vector<exec::StepItem> items = {exec::ChunkItem(0, arguments.prefill, true)};
    file.Add({"prefill", 1, arguments.prefill}, [&] { steps.Run(items); });
  }
  if (arguments.decode == 0) return;
  for (const std::int32_t batch : arguments.batches) {
    file.Add({"decode", batch, arguments.context},
             [&] { steps.RunDecodes(batch, arguments.context, 1); });
  }
}

void BenchDtype(const BenchArguments& arguments, const run::ComputedModel& model, DType dtype,
                run::RunControl& control, BenchOutput& output) {
  std::optional<run::KernelTimesFile> kernel_times;
  if (!arguments.kernel_times.empty()) kernel_times.emplace(arguments.kernel_times);
  const exec::SyntheticStepsConfig steps_config = StepsConfigOf(arguments, dtype);
  const run::MeasuredModel measured = run::LoadMeasuredModel(
      arguments.model, model, dtype, PositionsOf(arguments, model.config),
      {.tokens = std::max(arguments.prefill, steps_config.items), .sequences = steps_config.items},
      control, {arguments.batches.begin(), arguments.batches.end()});
  const exec::ModelWork work = measured.model().WorkWith(steps_config.kv_dtype);

  exec::SyntheticSteps steps(measured.model(), steps_config);
  if (kernel_times) return TraceKernels(arguments, steps, *kernel_times);
  if (arguments.prefill > 0) output.Write(dtype, MeasurePrefill(arguments, work, steps));
  if (arguments.decode == 0) return;
  for (const std::int32_t batch : arguments.batches) {
    output.Write(dtype, MeasureDecode(arguments, batch, work, steps));
  }
}

void RequireTraceable(const BenchArguments& arguments) {
  if (arguments.kernel_times.empty()) return;
  if (arguments.model.device == run::ModelDevice::kCuda && arguments.dtypes.size() == 1) return;
  throw InputError(InputError::Kind::kUsage, "--kernel-times",
                   "is for --device cuda and one --dtype");
}

void Bench(const BenchArguments& arguments) {
  if (!exec::RunsAlone("bench")) return;
  const run::ModelDevice device = arguments.model.device;
  run::RequireDevice("--device", device, "cpu");
  if (arguments.prefill + arguments.decode == 0) {
    throw InputError(InputError::Kind::kUsage, "--prefill", "and --decode are both 0");
  }
  RequireTraceable(arguments);
  std::vector<DType> dtypes;
  for (const std::string& name : arguments.dtypes) {
    dtypes.push_back(run::ParseDTypeOption("--dtype", name, run::WeightFormats(device)));
  }
  for (const DType dtype : dtypes) {
    run::RequireModelOptions(arguments.model.model_options, dtype, device);
    run::ParseDTypeOption("--kv-dtype", arguments.kv_dtype, run::KvFormats(device, dtype));
  }
  const run::ComputedModel model = run::ReadMeasuredModel(arguments.model);
  PositionsOf(arguments, model.config);
  for (const DType dtype : dtypes) RequireRoomFor(arguments, model.config.shape, dtype);
  TerminalReports control;
  BenchOutput output(arguments);
  for (const DType dtype : dtypes) BenchDtype(arguments, model, dtype, control, output);
}

}  // namespace

void AddBenchCommand(CommandParser app, CommandContext& /*context*/) {
  auto arguments = std::make_shared<BenchArguments>();
  CommandParser command = app.AddCommand(
      "bench", "Measure the executor's speed of prefill and decode, beside the machine's ceilings");
  AddMeasuredModelOptions(command, arguments->model);
  command
      .AddOption("--dtype", arguments->dtypes,
                 "Weights: fp32, bf16, int8, int4 on a CPU, bf16, fp8, int4 on CUDA (fp8, int4: of "
                 "layers, the rest bf16); several by commas; default: the first of them")
      .SplitAt(',');
  command.AddOption(
      "--kv-dtype", arguments->kv_dtype,
      "KV cache: on a CPU fp32 or bf16, default fp32 for fp32 weights, bf16 otherwise; "
      "on CUDA bf16");
  command.AddOption("--prefill", arguments->prefill, "Tokens of the prompt; 0: no prefill")
      .InRange(0, 1'000'000);
  command.AddOption("--decode", arguments->decode, "Decode steps of a repeat; 0: no decode")
      .InRange(0, 1'000'000);
  command.AddOption("--batch", arguments->batches, "Requests that decode together, by commas")
      .SplitAt(',')
      .InRange(1, 65536);
  command.AddOption("--context", arguments->context, "Tokens in the cache before the first decode")
      .InRange(0, 1'000'000);
  command.AddOption("--block-size", arguments->block_size, "Tokens per KV block").InRange(1, 65536);
  command.AddOption("--seconds", arguments->seconds_max, "Longest time of one measurement")
      .InRange(0.01, 3600.0);
  command.AddFlag("--ceilings", arguments->ceilings,
                  "Measure the machine's ceilings for JSON too; tables always show them");
  command.AddOption("--kernel-times", arguments->kernel_times,
                    "Write the time of each kernel of a step, and the gap before it, to this CSV "
                    "file, and measure nothing else. Needs --device cuda and CUPTI");
  command
      .AddOption("--format", arguments->format,
                 "What to print (default: table); json: a line for each measurement")
      .OneOf({"table", "json"});
  command.OnCall([arguments] { Bench(*arguments); });
}

}  // namespace twin::apps
