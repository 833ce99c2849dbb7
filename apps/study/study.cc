#include "apps/study/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "apps/study/derived_columns.h"
#include "apps/study/metric_columns.h"
#include "apps/study/study_sample.h"
#include "core/check.h"
#include "core/hash.h"
#include "core/input_error.h"
#include "core/number_text.h"
#include "core/seed_range.h"
#include "run/many/forked_runs.h"

namespace twin::run {
namespace {

constexpr int kRangeDigits = 12;
constexpr std::size_t kRowsMax = 100'000'000;

[[noreturn]] void RefuseStudy(const std::string& where, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, where, what);
}

// A value between `from` and `to`; `share` 0 and 1 give these exactly.
double Between(const AxisConfig& range, double share) {
  if (share <= 0) return *range.from;
  if (share >= 1) return *range.to;
  if (range.log) return *range.from * std::pow(*range.to / *range.from, share);
  return *range.from + share * (*range.to - *range.from);
}

// The path of a file that an axis names, relative to the folder of the study.
std::string Located(const StudyConfig& study, const std::string& file) {
  return (study.folder / file).lexically_normal().string();
}

AxisConfig WithPath(const std::string& path) {
  AxisConfig axis;
  axis.path = path;
  return axis;
}

constexpr std::string_view kPrimaryMetrics[] = {"mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms",
                                                "mean_e2el_ms", "output_token_rate"};

}  // namespace

std::string Study::Track::Value(double number) const {
  return integers ? std::to_string(std::llround(number)) : RoundedText(number, kRangeDigits);
}

std::string Study::Track::At(double unit) const {
  if (range) return Value(Between(*range, unit));
  const auto size = static_cast<double>(values.size());
  return values[std::min(static_cast<std::size_t>(unit * size), values.size() - 1)];
}

Study::Study(StudyConfig config, std::span<const std::string> overrides)
    : config_(std::move(config)), changes_(config_.set) {
  changes_.insert(changes_.end(), overrides.begin(), overrides.end());
  for (const std::string& base : config_.bases) {
    ExperimentTemplate& experiment = bases_.emplace_back(Located(config_, base));
    experiment.Change(config_.set, config_.folder);
    experiment.Change(overrides, std::filesystem::current_path());
  }
  first_seed_ = config_.seed.value_or(bases_.front().seed());
  RequireSeeds(config_.source, first_seed_, config_.replications);
  if (bases_.size() > 1) columns_.emplace_back("base");
  for (std::size_t i = 0; i < config_.axes.size(); ++i) {
    AddAxis(config_.axes[i], fmt::format("{}: axis[{}]", config_.source, i));
  }
  CountPoints();
  DerivedColumns::Check(config_);
  for (const std::string& metric :
       KnownMetrics(config_, config_.primary, config_.source + ": primary"))
    primary_.insert(metric);
  if (primary_.empty()) primary_.insert(std::begin(kPrimaryMetrics), std::end(kPrimaryMetrics));
  SetHash();
}

void Study::AddAxis(const AxisConfig& axis, const std::string& where) {
  Axis made;
  made.tracks.push_back(MakeTrack(axis, where));
  for (std::size_t i = 0; i < axis.coupled.size(); ++i) {
    made.tracks.push_back(MakeTrack(axis.coupled[i], fmt::format("{}.coupled[{}]", where, i)));
  }
  for (const Track& track : made.tracks) {
    const Track& first = made.tracks.front();
    if (track.range.has_value() == first.range.has_value() &&
        track.values.size() != first.values.size()) {
      RefuseStudy(where,
                  fmt::format("{} has {} values and {} has {}; allowed: equal numbers", first.path,
                              first.values.size(), track.path, track.values.size()));
    }
    if (std::ranges::find(columns_, track.path) != columns_.end())
      RefuseStudy(where, fmt::format("{} is on two axes", track.path));
    columns_.push_back(track.path);
  }
  made.size = made.tracks.front().values.size();
  axes_.push_back(std::move(made));
}

Study::Track Study::MakeTrack(const AxisConfig& axis, const std::string& where) const {
  if (axis.path == "seed")
    RefuseStudy(where, "seed: is the study's own; allowed: its fields seed and replications");
  if (axis.path == "name") RefuseStudy(where, "name: changes nothing; allowed: other fields");
  Track track{.path = axis.path,
              .values = axis.values,
              .range = std::nullopt,
              .integers = TakesIntegers(axis.path)};
  if (!axis.files.empty()) track.values = axis.files;
  if (axis.from && config_.sampling.kind != SamplingConfig::Kind::kGrid) {
    track.range = axis;
  } else if (axis.from) {
    for (std::uint32_t i = 0; i < axis.steps; ++i) {
      const double share = axis.steps == 1 ? 0 : static_cast<double>(i) / (axis.steps - 1);
      std::string value = track.Value(Between(axis, share));
      if (track.values.empty() || track.values.back() != value)
        track.values.push_back(std::move(value));
    }
  }
  const auto check = [&](const std::string& value) {
    for (const ExperimentTemplate& base : bases_) {
      try {
        base.CheckChange(fmt::format("{}={}", track.path, value));
      } catch (const InputError& error) {
        RefuseStudy(where, error.what());
      }
    }
  };
  for (const std::string& value : track.values) check(value);
  if (track.range) check(track.At(0));
  return track;
}

void Study::CountPoints() {
  if (config_.sampling.kind == SamplingConfig::Kind::kGrid) {
    for (const Axis& axis : axes_) {
      combinations_ =
          axis.size > kRowsMax / combinations_ ? kRowsMax + 1 : combinations_ * axis.size;
      if (combinations_ > kRowsMax) break;
    }
  } else {
    combinations_ = config_.sampling.points;
    sample_ = config_.sampling.kind == SamplingConfig::Kind::kSobol
                  ? SobolSequence(axes_.size(), combinations_)
                  : LatinHypercube(axes_.size(), combinations_, config_.sampling.seed);
  }
  points_ = combinations_ * bases_.size();
  if (points_ > kRowsMax / config_.replications) {
    RefuseStudy(config_.source, fmt::format("has more than {} runs; allowed: fewer values, or a "
                                            "sample (sampling)",
                                            kRowsMax));
  }
  for (const std::uint32_t point : config_.runs) {
    if (point >= points_) {
      RefuseStudy(config_.source,
                  fmt::format("runs: has point {}; allowed: 0 to {}", point, points_ - 1));
    }
  }
}

void Study::SetHash() {
  StudyConfig shown = config_;
  // Left out, as they change no run: which runs keep directories, derived columns, and primary
  // metrics.
  shown.runs.clear();
  shown.derived.clear();
  shown.primary.clear();
  shown.set = changes_;
  // Whole files are read once for both hashes.
  std::vector<std::vector<std::uint64_t>> files;
  for (const Axis& axis : axes_) files.push_back(FileHashesOf(axis));
  const std::vector<std::uint64_t> bases = BaseHashes();
  const auto hash_of = [&](const auto& of_axes) {
    std::uint64_t hash = HashText(WriteStudy(shown));
    for (const std::vector<std::uint64_t>& of_axis : of_axes) {
      for (const std::uint64_t file : of_axis) hash = MixWords(hash, file);
    }
    for (const std::uint64_t base : bases) hash = MixWords(hash, base);
    return HexText(hash);
  };
  hash_ = run_hash_ = hash_of(files);
  if (config_.warmup != WarmupRule::kExperiment) return;
  shown.replications = 1;
  shown.seed = first_seed_;
  shown.sampling = {};
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const bool names_files =
        std::ranges::any_of(files[i], [](std::uint64_t hash) { return hash != 0; });
    if (names_files) continue;
    files[i].clear();
    AxisConfig& axis = shown.axes[i];
    for (AxisConfig& coupled : axis.coupled) coupled = WithPath(coupled.path);
    AxisConfig plain = WithPath(axis.path);
    plain.coupled = std::move(axis.coupled);
    axis = std::move(plain);
  }
  run_hash_ = hash_of(files);
}

// The experiments without the files of axes.
std::vector<std::uint64_t> Study::BaseHashes() const {
  std::vector<std::string> varied;
  for (const Axis& axis : axes_) {
    for (const Track& track : axis.tracks) varied.push_back(track.path);
  }
  std::vector<std::uint64_t> hashes;
  for (const ExperimentTemplate& base : bases_) hashes.push_back(base.Hash(varied));
  return hashes;
}

// By value; 0 for one that names no file.
std::vector<std::uint64_t> Study::FileHashesOf(const Axis& axis) const {
  std::vector<std::uint64_t> hashes;
  for (const Track& track : axis.tracks) {
    if (track.integers) continue;
    for (const std::string& value : track.values) {
      hashes.push_back(bases_.front().HashOfFilesIn(track.path, value, config_.folder));
    }
  }
  return hashes;
}

std::string Study::SeedNote() const {
  for (std::size_t i = 0; i < bases_.size(); ++i) {
    const std::uint64_t own = bases_[i].seed();
    if (own == 0 || own == first_seed_) continue;
    return fmt::format(
        "the seed {} of {} has no effect: all points have the study's seeds, from {} on", own,
        config_.bases[i], first_seed_);
  }
  return {};
}

std::vector<std::string> Study::AxisValues(std::size_t point) const {
  std::size_t combination = point % combinations_;
  std::vector<std::vector<std::string>> by_axis(axes_.size());
  for (std::size_t a = axes_.size(); a-- > 0;) {
    const Axis& axis = axes_[a];
    for (const Track& track : axis.tracks) {
      by_axis[a].push_back(sample_.empty() ? track.values[combination % axis.size]
                                           : track.At(sample_[a][combination]));
    }
    if (sample_.empty()) combination /= axis.size;
  }
  std::vector<std::string> values;
  for (const std::vector<std::string>& of_axis : by_axis)
    values.insert(values.end(), of_axis.begin(), of_axis.end());
  return values;
}

std::vector<std::string> Study::ValuesOf(std::size_t point) const {
  CHECK(point < points_);
  std::vector<std::string> values = AxisValues(point);
  if (bases_.size() > 1) values.insert(values.begin(), config_.bases[BaseOf(point)]);
  return values;
}

ExperimentConfig Study::ConfigOf(std::size_t point) const {
  CHECK(point < points_);
  std::vector<std::string> changes = AxisValues(point);
  const std::size_t first = columns_.size() - changes.size();
  for (std::size_t i = 0; i < changes.size(); ++i) {
    changes[i] = fmt::format("{}={}", columns_[first + i], changes[i]);
  }
  changes.push_back(fmt::format("seed={}", first_seed_));
  return bases_[BaseOf(point)].With(changes, config_.folder);
}

std::function<int()> Study::Fork() const {
  // Points with equal policies have equal answers.
  std::vector<std::size_t> of_policy;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::string& column = columns_[i];
    const bool chooses = column == "base" || column == "policy" || column == "policy.own.path";
    if (chooses) of_policy.push_back(i);
  }
  const std::size_t last = of_policy.empty() ? 1 : points_;
  std::set<std::vector<std::string>> seen;
  for (std::size_t point = 0; point < last; ++point) {
    const std::vector<std::string> all = ValuesOf(point);
    std::vector<std::string> policy;
    for (const std::size_t i : of_policy) policy.push_back(all[i]);
    if (!seen.insert(policy).second) continue;
    try {
      if (auto fork = ForkOf(ConfigOf(point))) return fork;
    } catch (const InputError&) {  // becomes the error of the point's rows
    }
  }
  return nullptr;
}

bool Study::KeepsRuns(std::size_t point) const {
  return std::ranges::find(config_.runs, point) != config_.runs.end();
}

}  // namespace twin::run
