#include "apps/profile/fit_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/profile/profile_cases.h"
#include "apps/profile/speed_normalisation.h"
#include "core/input_error.h"
#include "core/statistics.h"
#include "exec/profile/spread.h"

namespace twin::run {
namespace {

constexpr double kSecondsPerUs = 1e-6;
// Every third random mix of steps is held out for the errors.
constexpr int kHeldOut = 3;

// The rounds of one measurement.
using Rounds = std::vector<const ProfileRow*>;

template <class Value>
std::vector<double> Of(const Rounds& rounds, const Value& value) {
  std::vector<double> values;
  for (const ProfileRow* row : rounds) values.push_back(value(*row) * kSecondsPerUs);
  return values;
}

// A shared machine has fast and slow minutes. The points of a table must be of equally fast
// minutes, because the table's shape counts: takes the fastest round, or the median if all rows are
// scaled to one speed already.
double TypicalSeconds(const Rounds& rounds, bool one_speed) {
  return Quantile(Of(rounds, [](const ProfileRow& row) { return row.median_us; }),
                  one_speed ? 0.5 : 0);
}

bool IsHeldOut(const std::string& name) {
  constexpr std::string_view kMix = "mix ";
  return name.rfind(kMix, 0) == 0 &&
         std::strtol(name.c_str() + kMix.size(), nullptr, 10) % kHeldOut == kHeldOut - 1;
}

std::optional<double> NoiseOf(const std::vector<double>& seconds) {
  if (seconds.size() < 2) return std::nullopt;
  return exec::SpreadOf(seconds).relative();
}

// A whole step with its mean times over the rounds.
sim::StepSample StepOf(const Rounds& rounds) {
  const auto part_of = [&](std::size_t i) {
    return Of(rounds, [i](const ProfileRow& row) { return row.parts_us[i]; });
  };
  sim::StepSample step{.totals = rounds.front()->totals,
                       .held_out = IsHeldOut(rounds.front()->name)};
  for (std::size_t i = 0; i < kStepPartCount; ++i) {
    const std::vector<double> seconds = part_of(i);
    step.seconds[i] = Mean(seconds);
    step.noise[i] = NoiseOf(seconds);
  }
  step.total_noise = NoiseOf(Of(rounds, [](const ProfileRow& row) { return row.median_us; }));
  return step;
}

// The table of the cost model that an operation belongs to. Operations that this version of the
// program does not measure belong to none.
std::string TableOf(const std::string& operation) {
  static const std::map<std::string, std::string> tables = {{"gemm_qkv", "layers"},
                                                            {"gemm_output", "layers"},
                                                            {"gemm_up", "layers"},
                                                            {"gemm_down", "layers"},
                                                            {"gemm_router", "layers"},
                                                            {"gemm_expert_up", "layers"},
                                                            {"gemm_expert_down", "layers"},
                                                            {"gemm_shared_up", "layers"},
                                                            {"gemm_shared_down", "layers"},
                                                            {"gemm_head", "head"},
                                                            {"norms", "other"},
                                                            {"rope", "other"},
                                                            {"append", "other"},
                                                            {"activation", "other"},
                                                            {"embedding", "other"},
                                                            {"expert_routing", "other"},
                                                            {"block_copy", "copies"}};
  const auto found = tables.find(operation);
  return found == tables.end() ? "" : found->second;
}

// Throws InputError (data) if something was not measured at all; warns of measurements that lack
// rounds.
void RequireComplete(const std::string& path, const Profile& profile, RunControl& control) {
  std::map<std::string, std::set<std::int32_t>> rounds;
  for (const ProfileRow& row : profile.rows) rounds[row.key()].insert(row.round);
  std::size_t all = 0;
  std::size_t few = 0;
  std::vector<std::string> missing;
  for (const ProfileCase& c : ProfileCases(profile.header, {}, {})) {
    for (const std::string& key : c.keys) {
      ++all;
      const auto found = rounds.find(key);
      if (found == rounds.end()) {
        missing.push_back(key);
      } else if (static_cast<std::int32_t>(found->second.size()) < profile.header.rounds) {
        ++few;
      }
    }
  }
  const char* const rest = "the same profile command continues from there";
  if (!missing.empty()) {
    throw InputError(InputError::Kind::kData, path,
                     fmt::format("lacks {} of {} measurements, the first is \"{}\"; allowed: a "
                                 "complete profile; {}",
                                 missing.size(), all, missing.front(), rest));
  }
  if (few == 0) return;
  control.OnWarning(fmt::format("{}: {} of {} measurements have fewer than {} rounds; {}", path,
                                few, all, profile.header.rounds, rest));
}

std::vector<sim::CostPoint> Points(const std::map<std::int64_t, double>& table) {
  std::vector<sim::CostPoint> points;
  for (const auto& [size, seconds] : table) {
    points.push_back({static_cast<double>(size), seconds});
  }
  return points;
}

// `one_speed`: the rows are scaled to one speed of the machine.
sim::FitInput InputOf(const Profile& profile, bool one_speed) {
  std::map<std::string, Rounds> measured;
  for (const ProfileRow& row : profile.rows) measured[row.key()].push_back(&row);
  std::map<std::string, std::map<std::int64_t, double>> tables;
  sim::FitInput input;
  input.decode_buckets = profile.header.decode_buckets;
  for (const auto& [key, rounds] : measured) {
    const ProfileRow& row = *rounds.front();
    const double seconds = TypicalSeconds(rounds, one_speed);
    if (row.kind == "step") {
      input.steps.push_back(StepOf(rounds));
    } else if (row.kind == "host") {
      const sim::StepSample step = StepOf(rounds);
      input.host.push_back(
          {.items = static_cast<double>(row.size),
           .tokens = static_cast<double>(row.totals.tokens()),
           .schedule_s = step.seconds[static_cast<std::size_t>(StepPart::kSchedule)],
           .delivery_s = step.seconds[static_cast<std::size_t>(StepPart::kDelivery)]});
    } else if (row.name.rfind("attention ", 0) == 0) {
      input.attention.push_back({.totals = row.totals, .seconds = seconds});
    } else {
      tables[TableOf(row.name)][row.size] += seconds;
    }
  }
  input.gemm_layers = Points(tables["layers"]);
  input.gemm_head = Points(tables["head"]);
  input.other = Points(tables["other"]);
  input.copies = Points(tables["copies"]);
  return input;
}

}  // namespace

sim::FitResult FitProfile(const std::filesystem::path& path, RunControl& control) {
  Profile profile = ReadProfile(path);
  RequireComplete(path.string(), profile, control);
  const exec::ProbeSeconds probe = ScaleToOneSpeed(profile);
  sim::FitResult fit;
  try {
    fit = sim::FitCost(InputOf(profile, probe.decode > 0), profile.header.model);
  } catch (const InputError& error) {
    throw InputError(InputError::Kind::kData, path.string(), error.what());
  }
  fit.config.model = profile.header.model.name;
  fit.config.machine = profile.header.machine;
  fit.config.threads = profile.header.threads;
  fit.config.commit = profile.header.commit;
  fit.config.decode_probe_s = probe.decode;
  fit.config.prefill_probe_s = probe.prefill;
  for (const std::string& note : fit.report.notes) control.OnWarning(note);
  return fit;
}

}  // namespace twin::run
