#include "config/study_config.h"

#include <fmt/format.h>

#include "config/overlay.h"
#include "config/quoted_values.h"
#include "config/study.bind.h"
#include "config/study.pb.h"
#include "config/text_message.h"
#include "core/input_error.h"

namespace twin {
namespace {

constexpr std::uint32_t kStudySchemaVersion = 1;

[[noreturn]] void RefuseStudy(const std::string& source, const std::string& what) {
  throw InputError(InputError::Kind::kUsage, source, what);
}

void ValidateRange(const AxisConfig& axis, const std::string& where, bool sampled) {
  if (!axis.from || !axis.to)
    RefuseStudy(where, "a range needs both from and to; allowed: from, to and steps");
  if (axis.log && !(*axis.from > 0 && *axis.to > 0)) {
    RefuseStudy(where, fmt::format("log: needs from and to above 0; they are {} and {}", *axis.from,
                                   *axis.to));
  }
  if (axis.steps == 0 && !sampled)
    RefuseStudy(where, "steps: is missing; allowed: the number of values from `from` to `to`");
  if (axis.steps == 1 && *axis.from != *axis.to)
    RefuseStudy(where, "steps: is 1, but from and to differ; allowed: 2 or more");
}

void ValidateAxis(const AxisConfig& axis, const std::string& where, bool sampled) {
  if (axis.path.empty())
    RefuseStudy(where, "path: is missing; allowed: a field as --set takes it, such as seed");
  const bool ranged = axis.from || axis.to || axis.steps > 0 || axis.log;
  const int given = (axis.values.empty() ? 0 : 1) + (axis.files.empty() ? 0 : 1) + (ranged ? 1 : 0);
  if (given != 1) {
    RefuseStudy(where, fmt::format("{} has {} values; allowed: one of values, files, and a range "
                                   "(from, to, steps)",
                                   axis.path, given == 0 ? "no" : "several kinds of"));
  }
  if (ranged) ValidateRange(axis, where, sampled);
  for (std::size_t i = 0; i < axis.coupled.size(); ++i) {
    const std::string inner = fmt::format("{}.coupled[{}]", where, i);
    if (!axis.coupled[i].coupled.empty())
      RefuseStudy(inner, "coupled: is nested; list all coupled fields in one axis");
    ValidateAxis(axis.coupled[i], inner, sampled);
  }
}

void ValidateStudy(const StudyConfig& study) {
  if (study.bases.empty()) {
    RefuseStudy(study.source,
                "base: is missing; allowed: the path of an experiment file, or several");
  }
  const bool sampled = study.sampling.kind != SamplingConfig::Kind::kGrid;
  if (sampled && study.sampling.points == 0)
    RefuseStudy(study.source, "sampling.points: is missing; allowed: the number of points");
  if (!sampled && study.sampling.points > 0) {
    RefuseStudy(study.source,
                "sampling.points: a grid has all combinations; allowed: with sampling.kind "
                "latin_hypercube or sobol");
  }
  if (sampled && study.axes.empty())
    RefuseStudy(study.source, "axis: is missing; allowed: at least one axis to sample");
  for (std::size_t i = 0; i < study.axes.size(); ++i) {
    ValidateAxis(study.axes[i], fmt::format("{}: axis[{}]", study.source, i), sampled);
  }
  if (study.warmup == WarmupRule::kMser5 && study.replications < 5) {
    RefuseStudy(study.source,
                fmt::format("replications: is {}; warmup.kind mser5 averages over replications and "
                            "needs 5 or more",
                            study.replications));
  }
}

}  // namespace

StudyConfig ParseStudy(const std::string& text, const std::string& source,
                       const std::filesystem::path& folder) {
  const QuotedText quoted = QuoteValues(text, "values");
  proto::Study message;
  ParseText(quoted.text, {.name = source, .inserted = quoted.inserted}, message);
  CheckRules(message, source);
  StudyConfig study;
  study.source = source;
  study.folder = folder;
  FromMessage fields(message);
  Bind(fields, study);
  ValidateStudy(study);
  return study;
}

StudyConfig ReadStudy(const std::filesystem::path& path) {
  return ParseStudy(ReadTextFile(path), path.string(),
                    std::filesystem::absolute(path).lexically_normal().parent_path());
}

std::string WriteStudy(const StudyConfig& config) {
  proto::Study message;
  message.set_schema_version(kStudySchemaVersion);
  StudyConfig copy = config;
  ToMessage fields(message);
  Bind(fields, copy);
  return PrintText(message);
}

}  // namespace twin
