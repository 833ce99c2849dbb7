// twinserve bench: speed of the executor, prefill and decode, beside the machine's ceilings.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/available_memory.h"
#include "apps/commands.h"
#include "apps/measured_model.h"
#include "core/input_error.h"
#include "exec/comm/mpi_ranks.h"
#include "exec/cpu/ceilings.h"
#include "exec/cpu/cpu_model.h"
#include "exec/profile/model_work.h"
#include "exec/profile/spread.h"
#include "exec/profile/synthetic_steps.h"

namespace twin::apps {
namespace {

struct BenchArguments {
  MeasuredModelOptions model;
  std::vector<std::string> dtypes = {"fp32"};
  std::string kv_dtype;  // empty: as the weights are, but bf16 for int8
  std::int32_t prefill = 512;
  std::int32_t decode = 32;
  std::vector<std::int32_t> batches = {1, 4, 16};
  std::int32_t context = 128;
  std::int32_t block_size = 16;
  double seconds_max = 20;
  bool ceilings = false;
  std::string format = "table";
};

struct Measurement {
  std::string phase;
  std::int32_t batch = 0;
  std::int64_t tokens = 0;  // of one repeat
  double flops = 0;         // likewise
  double bytes = 0;
  exec::Spread seconds;
};

exec::RepeatRule RuleOf(const BenchArguments& arguments) {
  return {.count_min = 5,
          .count_max = 40,
          .seconds_max = arguments.seconds_max,
          .relative_error = 0.01};
}

Measurement MeasurePrefill(const BenchArguments& arguments, const exec::ModelWork& work,
                           exec::SyntheticSteps& steps) {
  const std::vector<exec::StepItem> items = {exec::ChunkItem(0, arguments.prefill, true)};
  steps.Run(items);  // warms up
  const std::vector<double> seconds =
      Repeat(RuleOf(arguments), [&] { return Seconds(steps.Run(items).device()); });
  const StepTotals totals = exec::TotalsOf(items);
  return {.phase = "prefill",
          .batch = 1,
          .tokens = totals.tokens(),
          .flops = work.Flops(totals),
          .bytes = work.Bytes(totals),
          .seconds = exec::SpreadOf(seconds)};
}

Measurement MeasureDecode(const BenchArguments& arguments, std::int32_t batch,
                          const exec::ModelWork& work, exec::SyntheticSteps& steps) {
  steps.RunDecodes(batch, arguments.context, std::min(arguments.decode, 4));  // warms up
  const std::vector<double> seconds = Repeat(RuleOf(arguments), [&] {
    return Seconds(steps.RunDecodes(batch, arguments.context, arguments.decode).device());
  });
  Measurement result{.phase = "decode", .batch = batch, .seconds = exec::SpreadOf(seconds)};
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

class BenchOutput {
 public:
  BenchOutput(const BenchArguments& arguments, std::int32_t threads)
      : json_(arguments.format == "json"), threads_(threads) {
    if (!json_ || arguments.ceilings) ceilings_ = exec::MeasureCeilings(threads);
    if (json_) return;
    std::printf("%s, %d threads: %.1f GFLOP/s fp32, %.1f GB/s read\n\n",
                std::string(kernels::Name(kernels::BestInstructionSet())).c_str(), threads,
                ceilings_->flops_per_s_best() * 1e-9, ceilings_->read_bytes_per_s_best * 1e-9);
    std::printf("%-5s %-8s %6s %7s %12s %10s %8s %8s %8s %8s %7s\n", "dtype", "phase", "batch",
                "tokens", "tokens/s", "GFLOP/s", "of peak", "GB/s", "of read", "repeats", "spread");
  }

  void Write(DType dtype, const Measurement& m) {
    if (json_) {
      WriteLine(dtype, m);
      return;
    }
    const double seconds = m.seconds.median;
    std::printf("%-5s %-8s %6d %7lld %12.1f %10.1f %7.0f%% %8.1f %7.0f%% %8lld %6.1f%%\n",
                std::string(Name(dtype)).c_str(), m.phase.c_str(), m.batch,
                static_cast<long long>(m.tokens), static_cast<double>(m.tokens) / seconds,
                m.flops / seconds * 1e-9, 100 * FlopsShare(m), m.bytes / seconds * 1e-9,
                100 * ReadShare(m), static_cast<long long>(m.seconds.count),
                100 * m.seconds.relative());
    std::fflush(stdout);
  }

 private:
  [[nodiscard]] double FlopsShare(const Measurement& m) const {
    return m.flops / m.seconds.median / ceilings_->flops_per_s_best();
  }
  [[nodiscard]] double ReadShare(const Measurement& m) const {
    return m.bytes / m.seconds.median / ceilings_->read_bytes_per_s_best;
  }

  void WriteLine(DType dtype, const Measurement& m) const {
    const double seconds = m.seconds.median;
    nlohmann::ordered_json line{{"phase", m.phase},
                                {"batch", m.batch},
                                {"tokens", m.tokens},
                                {"tokens_per_s", static_cast<double>(m.tokens) / seconds},
                                {"gflops", m.flops / seconds * 1e-9},
                                {"gb_per_s", m.bytes / seconds * 1e-9},
                                {"repeats", m.seconds.count},
                                {"spread", m.seconds.relative()},
                                {"dtype", Name(dtype)},
                                {"threads", threads_}};
    if (ceilings_) {
      line["ceiling_gflops"] = ceilings_->flops_per_s_best() * 1e-9;
      line["ceiling_gb_per_s"] = ceilings_->read_bytes_per_s_best * 1e-9;
      line["flops_share"] = FlopsShare(m);
      line["bandwidth_share"] = ReadShare(m);
    }
    std::cout << line.dump() << std::endl;
  }

  bool json_;
  std::int32_t threads_;
  std::optional<exec::CpuCeilings> ceilings_;
};

// Positions that the longest sequence takes.
std::int32_t PositionsOf(const BenchArguments& arguments, const exec::ModelConfig& config) {
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
  return {.kv_dtype = KvDTypeOf(arguments.kv_dtype, dtype),
          .block_size = arguments.block_size,
          .tokens = std::max(batch_max * decoded, std::int64_t{arguments.prefill}),
          .items = batch_max};
}

void RequireRoomFor(const BenchArguments& arguments, ModelSpec model, DType dtype) {
  const exec::SyntheticStepsConfig steps = StepsConfigOf(arguments, dtype);
  model.weight_dtype = dtype;
  model.kv_dtype = steps.kv_dtype;
  RequireRoom(model, exec::CacheBlocks(steps), steps.block_size, AvailableMemory());
}

void BenchDtype(const BenchArguments& arguments, DType dtype, BenchOutput& output) {
  exec::ModelConfig config = exec::ReadModelConfig(arguments.model.model);
  const std::int32_t positions = PositionsOf(arguments, config);
  const exec::SyntheticStepsConfig steps_config = StepsConfigOf(arguments, dtype);
  kernels::ThreadPool pool(ThreadsOf(arguments.model));
  exec::ModelWeights weights = WeightsOf(arguments.model, config, dtype, pool);
  exec::CpuModel model(std::move(config), std::move(weights), positions, pool);
  const exec::ModelWork work = model.WorkWith(steps_config.kv_dtype);

  exec::SyntheticSteps steps(model, steps_config);
  if (arguments.prefill > 0) output.Write(dtype, MeasurePrefill(arguments, work, steps));
  if (arguments.decode == 0) return;
  for (const std::int32_t batch : arguments.batches) {
    output.Write(dtype, MeasureDecode(arguments, batch, work, steps));
  }
}

void Bench(const BenchArguments& arguments) {
  if (!exec::RunsAlone("bench")) return;
  RequireDevice(arguments.model);
  if (arguments.prefill + arguments.decode == 0) {
    throw InputError(InputError::Kind::kUsage, "--prefill", "and --decode are both 0");
  }
  std::vector<DType> dtypes;
  for (const std::string& name : arguments.dtypes) {
    dtypes.push_back(ParseDTypeOption("--dtype", name, {DType::kFp32, DType::kBf16, DType::kInt8}));
  }
  for (const DType dtype : dtypes) KvDTypeOf(arguments.kv_dtype, dtype);
  const exec::ModelConfig config = exec::ReadModelConfig(arguments.model.model);
  PositionsOf(arguments, config);
  for (const DType dtype : dtypes) RequireRoomFor(arguments, config.shape, dtype);
  BenchOutput output(arguments, ThreadsOf(arguments.model));
  for (const DType dtype : dtypes) BenchDtype(arguments, dtype, output);
}

}  // namespace

void AddBenchCommand(CLI::App& app, CommandContext& /*context*/) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command = app.add_subcommand(
      "bench", "Speed of the executor: prefill and decode, beside the machine's ceilings");
  AddMeasuredModelOptions(*command, arguments->model);
  command->add_option("--dtype", arguments->dtypes, "Weights: fp32, bf16, int8, several by commas")
      ->delimiter(',');
  command->add_option("--kv-dtype", arguments->kv_dtype,
                      "KV cache: fp32 or bf16; default fp32 for fp32 weights, bf16 otherwise");
  command->add_option("--prefill", arguments->prefill, "Tokens of the prompt; 0: no prefill")
      ->check(CLI::Range(0, 1'000'000));
  command->add_option("--decode", arguments->decode, "Decode steps of a repeat; 0: no decode")
      ->check(CLI::Range(0, 1'000'000));
  command->add_option("--batch", arguments->batches, "Requests that decode together, by commas")
      ->delimiter(',')
      ->check(CLI::Range(1, 65536));
  command
      ->add_option("--context", arguments->context, "Tokens in the cache before the first decode")
      ->check(CLI::Range(0, 1'000'000));
  command->add_option("--block-size", arguments->block_size, "Tokens per KV block")
      ->check(CLI::Range(1, 65536));
  command->add_option("--seconds", arguments->seconds_max, "Longest repeating of one measurement")
      ->check(CLI::Range(0.01, 3600.0));
  command->add_flag("--ceilings", arguments->ceilings,
                    "Measure the machine's ceilings for JSON too; tables always show them");
  command->add_option("--format", arguments->format, "json: a line for each measurement")
      ->check(CLI::IsMember({"table", "json"}));
  command->callback([arguments] { Bench(*arguments); });
}

}  // namespace twin::apps
