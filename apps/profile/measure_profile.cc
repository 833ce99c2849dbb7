#include "apps/profile/measure_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "apps/profile/profile_cases.h"
#include "apps/profile/profile_measurements.h"
#include "config/models/model_names.h"
#include "core/input_error.h"
#include "core/random.h"
#include "run/available_memory.h"
#include "run/version.h"

namespace twin::run {
namespace {

constexpr std::int32_t kShortestModel = 64;
// The largest cache on a CPU; a device takes a quarter of its memory.
constexpr std::int64_t kCacheBytesMax = std::int64_t{1} << 30;
// Devices compute several times as many tokens at once as CPUs.
constexpr exec::ProfileLimits kCudaLimits = {
    .tokens_max = 8192, .context_max = 8192, .batch_max = 256};

// The longest single measurement, so that slow machines and large models finish in reasonable time.
double LongestSeconds(const ProfileRequest& request) { return request.quick ? 0.5 : 4; }

exec::RepeatRule RuleOf(const ProfileRequest& request) {
  return {.count_min = 3,
          .count_max = request.quick ? 5 : 15,
          .seconds_max = request.quick ? 0.05 : 0.3,
          .relative_error = 0.01};
}

// The number of tokens for which a step takes `seconds`, by the speed of a step of 32 tokens.
std::int32_t TokensWithin(double seconds, exec::SyntheticSteps& steps, std::int32_t most) {
  const std::vector<exec::StepItem> items = {exec::ChunkItem(0, 32, true)};
  steps.Run(items);
  const double per_token =
      exec::SpreadOf(exec::Repeat({.count_min = 3, .count_max = 5},
                                  [&] { return Seconds(steps.Run(items).device()); }))
          .median /
      32;
  const double tokens = std::max(seconds / per_token, 32.0);
  std::int32_t power = 32;
  while (power * 2 <= tokens && power * 2 <= most) power *= 2;
  return std::min(power * 2 > most && tokens >= most ? most : power, most);
}

exec::ProfileLimits LimitsOf(const ProfileRequest& request, const ModelSpec& model) {
  if (model.max_position < kShortestModel) {
    throw InputError(InputError::Kind::kData, request.model.model,
                     fmt::format("the model has {} positions; a profile needs at least {}",
                                 model.max_position, kShortestModel));
  }
  const bool cuda = request.model.device == ModelDevice::kCuda;
  exec::ProfileLimits limits = cuda ? kCudaLimits : exec::ProfileLimits{};
  limits.context_max =
      std::min(request.context_max.value_or(limits.context_max), model.max_position);
  limits.tokens_max = std::min(request.tokens_max.value_or(limits.tokens_max), limits.context_max);
  limits.batch_max = request.batch_max.value_or(limits.batch_max);
  limits.coarse = request.quick;
  limits.mixes = request.quick ? 60 : 90;
  const std::int64_t quarter = MemoryOf(request.model.device) / 4;
  const std::int64_t bytes = cuda ? quarter : std::min(kCacheBytesMax, quarter);
  limits.cache_tokens =
      std::clamp<std::int64_t>(bytes / KvBytesPerToken(model), limits.context_max,
                               std::int64_t{limits.batch_max} * limits.context_max);
  return limits;
}

// The header of a profile. Its number of threads counts only on a CPU: with other devices, threads
// of the host compute nothing.
ProfileHeader HeaderOf(const ProfileRequest& request, const ModelSpec& model,
                       const MeasuredModel& measured, const exec::ProfileLimits& limits) {
  return {.machine = measured.machine,
          .instruction_set = measured.instruction_set,
          .threads = request.model.device == ModelDevice::kCpu ? ThreadsOf(request.model) : 0,
          .commit = std::string(kCommit) + (kDirty ? "+changed" : ""),
          .block_size = request.block_size,
          .rounds = request.rounds,
          .model = model,
          .decode_buckets = measured.model().decode_buckets(),
          .limits = limits};
}

// A file that exists keeps its limits: throws if an option asks for other limits.
void RequireSameLimits(const ProfileRequest& request, const exec::ProfileLimits& in_file,
                       const exec::ProfileLimits& asked, RunControl& control) {
  const auto refuse = [&](const char* option, std::int32_t there, std::int32_t here) {
    throw InputError(InputError::Kind::kUsage, option,
                     fmt::format("asks for {}, but {} was begun with {}; allowed: the same value, "
                                 "no value, or another output file",
                                 here, request.out.string(), there));
  };
  if (request.batch_max && asked.batch_max != in_file.batch_max) {
    refuse("--batch-max", in_file.batch_max, asked.batch_max);
  }
  if (request.context_max && asked.context_max != in_file.context_max) {
    refuse("--context-max", in_file.context_max, asked.context_max);
  }
  if (!request.tokens_max) return;
  if (asked.tokens_max < in_file.tokens_max) {
    refuse("--tokens-max", in_file.tokens_max, asked.tokens_max);
  }
  // The file's limit may be lower than the one that was asked for: the machine is too slow for
  // more.
  if (asked.tokens_max > in_file.tokens_max) {
    control.OnNote(fmt::format("{} was begun with steps of up to {} tokens and keeps this limit",
                               request.out.string(), in_file.tokens_max));
  }
}

// Measures what the file does not have yet, round by round, each in its own order: a slow minute of
// the machine then affects all sizes alike.
class ProfileRun {
 public:
  // Borrows everything; `probe` may be null.
  ProfileRun(const std::vector<ProfileRow>& known, exec::SpeedProbe* probe, ProfileWriter& writer)
      : probe_(probe), writer_(writer) {
    for (const ProfileRow& row : known) known_.insert(KeyOf(row.key(), row.round));
  }

  // Measures up to round `last`, counted from 1. False if `control` ended it early.
  bool Run(const std::vector<ProfileCase>& cases, std::int32_t last, RunControl& control) {
    const auto rounds = static_cast<std::uint64_t>(last);
    for (std::int32_t round = 0; round < last; ++round) {
      for (const std::size_t index : Shuffled(cases.size(), round)) {
        if (control.StopRequested()) return false;
        Measure(cases[index], round);
        control.OnProgress("measurements", ++done_, rounds * cases.size());
      }
    }
    return true;
  }

  [[nodiscard]] std::uint64_t measured() const { return measured_; }

 private:
  static std::string KeyOf(const std::string& key, std::int32_t round) {
    return fmt::format("{},{}", round, key);
  }

  static std::vector<std::size_t> Shuffled(std::size_t count, std::int32_t round) {
    Random random(static_cast<std::uint64_t>(round), "profile_order");
    std::vector<std::size_t> order(count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto place =
          static_cast<std::size_t>(random.UniformInt(0, static_cast<std::int64_t>(i)));
      order[i] = order[place];
      order[place] = i;
    }
    return order;
  }

  void Measure(const ProfileCase& c, std::int32_t round) {
    const bool known = std::all_of(c.keys.begin(), c.keys.end(), [&](const std::string& key) {
      return known_.contains(KeyOf(key, round));
    });
    if (known) return;
    const exec::ProbeSeconds speed = probe_ == nullptr ? exec::ProbeSeconds{} : probe_->Run();
    std::vector<ProfileRow> rows = c.measure();
    std::erase_if(rows,
                  [&](const ProfileRow& row) { return known_.contains(KeyOf(row.key(), round)); });
    for (ProfileRow& row : rows) {
      row.round = round;
      row.decode_probe_us = speed.decode * 1e6;
      row.prefill_probe_us = speed.prefill * 1e6;
    }
    writer_.Add(rows);
    ++measured_;
  }

  exec::SpeedProbe* probe_;
  ProfileWriter& writer_;
  std::set<std::string> known_;
  std::uint64_t done_ = 0;
  std::uint64_t measured_ = 0;
};

}  // namespace

ProfileOutcome MeasureProfile(const ProfileRequest& request, RunControl& control) {
  const ModelDevice device = request.model.device;
  RequireDevice("--device", device, "cpu");
  ComputedModel model = ReadMeasuredModel(request.model);
  ModelSpec& shape = model.config.shape;
  StoreWeightsAs(request.weight_dtype, shape);
  shape.kv_dtype = request.kv_dtype;
  const exec::ProfileLimits asked = LimitsOf(request, shape);
  exec::ProfileLimits limits = asked;
  std::optional<Profile> before;
  const bool begins = !std::filesystem::exists(request.out);
  if (!begins) {
    before = ReadProfile(request.out, UnfinishedRow::kLeftOut);
    RequireSameLimits(request, before->header.limits, asked, control);
    limits = before->header.limits;
  }
  const exec::SyntheticStepsConfig steps_config = StepsConfigOf(shape, request.block_size, limits);
  RequireRoom(shape, exec::CacheBlocks(steps_config), request.block_size, MemoryOf(device));

  const MeasuredModel measured = LoadMeasuredModel(
      request.model, model, request.weight_dtype, limits.context_max,
      {.tokens = std::max(limits.tokens_max, steps_config.items), .sequences = steps_config.items},
      control);
  ProfileHeader header = HeaderOf(request, shape, measured, asked);
  if (before) RequireSameHeader(request.out, before->header, header);
  header.limits = limits;
  exec::SyntheticSteps steps(measured.model(), steps_config);
  if (begins) {
    header.limits.tokens_max =
        TokensWithin(LongestSeconds(request), steps, header.limits.tokens_max);
  }
  const std::unique_ptr<exec::Operations> operations =
      measured.model().MakeOperations(steps.cache());
  std::filesystem::path scratch = request.out;
  scratch += ".run";
  const std::vector<ProfileCase> cases = ProfileCases(header, RuleOf(request),
                                                      {.operations = operations.get(),
                                                       .steps = &steps,
                                                       .model = &measured.model(),
                                                       .scratch = scratch});

  ProfileWriter writer(request.out, header, begins);
  const std::unique_ptr<exec::SpeedProbe> probe = measured.model().MakeSpeedProbe();
  ProfileRun run(before ? before->rows : std::vector<ProfileRow>{}, probe.get(), writer);
  const std::int32_t last = std::min(request.until_round.value_or(header.rounds), header.rounds);
  const bool ended = run.Run(cases, last, control);
  control.OnProgressEnd();
  return {.complete = ended && last == header.rounds,
          .interrupted = !ended,
          .continued = !begins,
          .measured = run.measured(),
          .tokens_max = header.limits.tokens_max};
}

}  // namespace twin::run
