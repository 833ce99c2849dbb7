// Recommends settings for given models, devices, load and bounds.
//
// Idea: the configurations that a request leaves open are many, but most of them are clearly worse.
// Successive halving runs all of them for a short time, drops the worse ones, then runs the rest
// longer, and so on; all runs share their seeds, so that differences are paired (halving.h). The
// remaining configurations run at full length on fresh seeds, which rank them. The first one runs
// once more on further seeds, because the best of many is best partly by luck. Around it, every
// setting is then varied alone.
//
// A configuration's value is the largest load at which the bounds hold in the mean over all seeds;
// its scores by seed are the pseudo-values of the jackknife (run/many/jackknife.h). A seed's runs
// at two loads have the same arrivals, compressed, so that few runs find the load.
//
// The objective fleet has no load to find, but a number of replicas: the fewest with which the
// bounds hold, by bisection on one seed; the full runs then decide among the numbers around it.
//
// Weights of the checkpoint and quantised ones are two answers, because they are two files and two
// qualities of answers: halving keeps the best of both.
//
// A search whose time is out ranks what it has: the configurations of the longest runs that ended.
// The best of the shorter runs are evaluated first.
//
// Easy to get wrong: short runs have not filled the KV cache and flatter overloaded configurations.
// The first rung therefore is five times as long as filling the largest cache takes, and the
// metrics leave the filling out. Whether full runs are long enough is asked at the end: those of
// the first configuration are repeated with twice as many requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/recommend/candidate.h"
#include "config/recommend_config.h"
#include "run/many/output_statistics.h"
#include "run/run_control.h"

namespace twin::run {

constexpr double kRecommendLevel = 0.95;  // of all intervals
constexpr std::size_t kRungSeeds = 5;

struct BoundMargin {
  std::string bound;
  Interval metric;    // at the load of the request
  double margin = 0;  // room as a share of the limit; negative: broken
};

struct RecommendedConfiguration {
  std::size_t rank = 0;  // from 1
  bool tied = false;     // with the first
  Candidate candidate;
  Interval value;                                         // of the objective
  std::vector<std::pair<std::string, Interval>> metrics;  // at the load of the request
  std::vector<BoundMargin> margins;
  std::string command;          // of one engine
  ExperimentConfig experiment;  // of all engines, at the load of the request
};

// One other value of one setting of the first configuration.
struct SettingEffect {
  std::string value = {};
  Interval change = {};     // relative change of the objective; NaN if the variant does not run
  std::string reason = {};  // why it does not run
};

struct SettingSensitivity {
  std::string path = {};   // the setting
  std::string value = {};  // of the first configuration
  // Elasticity of numeric settings: percent of the objective per percent of the setting, over the
  // range that ran.
  std::optional<Interval> elasticity = {};
  std::vector<SettingEffect> effects = {};
  std::string sentence = {};
};

struct ParetoConfiguration {
  std::size_t rank = 0;
  double mean_ttft_ms = 0;  // at the load of the request
  double mean_tpot_ms = 0;
  double value = 0;
};

struct RecommendRung {
  std::int64_t requests = 0;  // per run
  std::size_t seeds = 0;
  std::size_t configurations = 0;
  std::size_t kept = 0;
};

// The first configuration in runs of twice as many requests, with the seeds of the full runs.
struct LengthCheck {
  std::int64_t requests = 0;  // per run
  // Relative change of the objective; each end holds with kRecommendLevel (two one-sided tests).
  Interval change = {};
  bool settled = false;  // both ends are within the tolerance of the request
};

struct Recommendation {
  std::string objective;
  std::string value_unit;
  bool lower_is_better = false;
  std::string load_unit;
  double load = 0;                // of the request
  double mean_prompt_tokens = 0;  // of the workload
  double mean_output_tokens = 0;
  std::size_t candidates = 0;
  std::vector<RecommendedConfiguration> configurations;  // by rank
  // The first configuration's value on further seeds; not with fleet, whose first one keeps the
  // bounds there.
  std::optional<Interval> first_again;
  // Not with fleet, nor where a trace has no more requests.
  std::optional<LengthCheck> length_check;
  std::vector<SettingSensitivity> sensitivity;
  // The configurations above that no other one beats in both mean TTFT and mean TPOT at the load.
  std::vector<ParetoConfiguration> pareto;
  std::vector<RejectedSettings> rejected;
  std::vector<std::string> assumptions;
  std::vector<std::string> not_considered;
  std::vector<RecommendRung> rungs;  // the last one: the full runs
  std::int64_t warmup_requests = 0;
  std::int64_t runs = 0;
  bool interrupted = false;  // then nothing above is known
  // Parts of the search for which the time did not suffice, a line for each. Empty: complete.
  std::vector<std::string> left_out;
};

struct RecommendOptions {
  int jobs = 0;             // runs at a time; 0: one per core
  bool exhaustive = false;  // every configuration at full length, to check the search
  // A file (evaluation_log.h) of a search that was interrupted, which this one goes on with. It is
  // removed once there is a complete answer. Empty: nothing is kept.
  std::filesystem::path log = {};
  // True once the search should end with what it has; called from any thread. Empty: never.
  std::function<bool()> out_of_time = {};
};

// The index of the first configuration whose weights are those of the checkpoint; 0 if all are
// quantised. REQUIRES: a configuration.
std::size_t FirstWithOwnWeights(const Recommendation& answer);

// Throws InputError for a request that cannot be answered, or a log of another search.
Recommendation Recommend(const RecommendConfig& request, const RecommendOptions& options,
                         RunControl& control);

}  // namespace twin::run
