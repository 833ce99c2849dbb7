// A study, as its file describes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace twin {

// The values of one field. Exactly one of `values`, `files` and `from`..`to` is given.
struct AxisConfig {
  std::string path;
  std::vector<std::string> values;  // text format
  std::vector<std::string> files;   // relative to the study's folder
  std::optional<double> from;
  std::optional<double> to;
  std::uint32_t steps = 0;
  bool log = false;
  std::vector<AxisConfig> coupled;  // change together with this one; not nested deeper

  bool operator==(const AxisConfig&) const = default;
};

struct SamplingConfig {
  enum class Kind : std::uint8_t { kGrid, kLatinHypercube, kSobol };
  Kind kind = Kind::kGrid;
  std::uint32_t points = 0;  // of a Latin hypercube or Sobol sample
  std::uint64_t seed = 0;

  bool operator==(const SamplingConfig&) const = default;
};

// A column of results.csv that is computed from other columns.
struct DerivedConfig {
  std::string name;
  std::string value;  // an expression

  bool operator==(const DerivedConfig&) const = default;
};

enum class WarmupRule : std::uint8_t { kExperiment, kMser5 };

struct StudyConfig {
  std::vector<std::string> bases;  // relative to `folder`
  std::vector<AxisConfig> axes;
  std::uint32_t replications = 1;
  std::optional<std::uint64_t> seed;
  SamplingConfig sampling;
  WarmupRule warmup = WarmupRule::kExperiment;
  std::vector<std::string> set;     // changes to every experiment (override.h)
  std::vector<std::uint32_t> runs;  // points that keep run directories
  std::vector<DerivedConfig> derived;
  std::vector<std::string> primary;  // metrics whose comparisons decide together; empty: main ones

  std::string source;            // the file, for errors
  std::filesystem::path folder;  // where relative paths start; not part of the file
};

// Reads and validates a study file; the experiments are not read yet.
// Throws InputError (usage) with the file, the line and column or the field, what is wrong, what is
// allowed.
StudyConfig ReadStudy(const std::filesystem::path& path);

// Reads and validates a text; errors name `source`.
StudyConfig ParseStudy(const std::string& text, const std::string& source,
                       const std::filesystem::path& folder);

// The study in text format with all defaults, for hashes and comparisons. Writes unset numbers as
// 0.
std::string WriteStudy(const StudyConfig& config);

}  // namespace twin
