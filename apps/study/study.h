// A study as a list of points: the experiment of each point, and the seeds with which it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "config/experiment_config.h"
#include "config/study_config.h"

namespace twin::run {

// One run: a replication of a point. Rows are numbered by point, then by replication.
struct StudyRowId {
  std::size_t point = 0;
  std::uint32_t replication = 0;

  bool operator==(const StudyRowId&) const = default;
};

// Immutable: several threads may use one.
//
// Columns are the axes by path, coupled fields after their axis; with several bases, `base` comes
// first. In a grid the last axis varies fastest. Values of ranges have at most 12 significant
// digits; values of fields of whole numbers are rounded, and equal neighbours of a range are
// dropped (a sample keeps them).
class Study {
 public:
  // Reads the experiments of the study. `overrides` are the command line's --set and --unset, which
  // apply after `config.set`.
  // Throws InputError (usage): an experiment that cannot be read, an axis without such a field or
  // with a value of another type, coupled fields with different numbers of values, one field on two
  // axes, a field that a study sets itself (seed, name), seeds beyond 2^64 - 1, a derived column
  // that cannot be computed, a file of the experiments or of the axes that cannot be read. Reads
  // all of these files.
  Study(StudyConfig config, std::span<const std::string> overrides);

  [[nodiscard]] const StudyConfig& config() const { return config_; }
  // Changes of every experiment: config().set, then the command line's.
  [[nodiscard]] const std::vector<std::string>& changes() const { return changes_; }
  [[nodiscard]] std::size_t points() const { return points_; }
  // Number of combinations of the axes' values. Point = base * combinations() + combination.
  [[nodiscard]] std::size_t combinations() const { return combinations_; }
  [[nodiscard]] std::size_t rows() const { return points_ * config_.replications; }
  [[nodiscard]] StudyRowId RowAt(std::size_t row) const {
    return {row / config_.replications, static_cast<std::uint32_t>(row % config_.replications)};
  }
  [[nodiscard]] std::size_t IndexOf(const StudyRowId& row) const {
    return row.point * config_.replications + row.replication;
  }

  [[nodiscard]] const std::vector<std::string>& columns() const { return columns_; }
  // By column, as a user would write them. REQUIRES: point < points().
  [[nodiscard]] std::vector<std::string> ValuesOf(std::size_t point) const;

  // Says that a base has a seed of its own, which the study's seeds replace; empty if none has.
  [[nodiscard]] std::string SeedNote() const;
  [[nodiscard]] std::uint64_t SeedOf(std::uint32_t replication) const {
    return first_seed_ + replication;
  }

  // The point's experiment, with the seed of replication 0. Throws InputError if the experiment
  // is not valid.
  [[nodiscard]] ExperimentConfig ConfigOf(std::size_t point) const;

  // How the process splits for the runs; null if all can share it (run/many/forked_runs.h). Loads
  // the policy files of the points.
  [[nodiscard]] std::function<int()> Fork() const;

  // Whether the study is about the metric (StudyConfig::primary, or the main ones).
  [[nodiscard]] bool IsPrimary(const std::string& metric) const {
    return primary_.contains(metric);
  }

  // Whether the point's runs keep run directories.
  [[nodiscard]] bool KeepsRuns(std::size_t point) const;

  // 64 bits in hexadecimal digits. Equal studies of equal experiments and input files (whole files,
  // including files that the axes name) have equal hashes on every machine.
  [[nodiscard]] const std::string& hash() const { return hash_; }
  // As hash(), without the values of axes and the number of replications: where it is equal, runs
  // of equal values and seeds are equal. Values that name files count. With a warm-up that is found
  // over all runs, it is hash().
  [[nodiscard]] const std::string& run_hash() const { return run_hash_; }

 private:
  // The values of one field.
  struct Track {
    std::string path;
    std::vector<std::string> values;  // listed, or of a range in a grid
    std::optional<AxisConfig> range;  // of a sample
    bool integers = false;

    // `unit` in [0, 1) of a sample.
    [[nodiscard]] std::string At(double unit) const;
    [[nodiscard]] std::string Value(double number) const;
  };
  // Fields that change together.
  struct Axis {
    std::vector<Track> tracks;
    std::size_t size = 0;  // of a grid
  };

  void AddAxis(const AxisConfig& axis, const std::string& where);
  Track MakeTrack(const AxisConfig& axis, const std::string& where) const;
  void CountPoints();
  void SetHash();
  [[nodiscard]] std::vector<std::uint64_t> BaseHashes() const;
  [[nodiscard]] std::vector<std::uint64_t> FileHashesOf(const Axis& axis) const;
  [[nodiscard]] std::size_t BaseOf(std::size_t point) const { return point / combinations_; }
  [[nodiscard]] std::vector<std::string> AxisValues(std::size_t point) const;

  StudyConfig config_;
  std::vector<std::string> changes_;
  std::vector<ExperimentTemplate> bases_;
  std::vector<Axis> axes_;
  std::vector<std::string> columns_;
  std::vector<std::vector<double>> sample_;  // by axis, then combination; empty: a grid
  std::size_t combinations_ = 1;
  std::size_t points_ = 0;
  std::uint64_t first_seed_ = 0;
  std::set<std::string> primary_;
  std::string hash_;
  std::string run_hash_;
};

}  // namespace twin::run
