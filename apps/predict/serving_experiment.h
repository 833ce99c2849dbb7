// The experiment that stands for a measured deployment.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "apps/predict/serving_row.h"
#include "config/experiment_config.h"

namespace twin::run {

// The fields that a row sets, and what it says beside them.
struct ServingChanges {
  std::vector<std::string> changes;  // to an empty experiment, as --set takes them
  std::int64_t devices = 0;
  double output_tokens = 0;      // of a request, in the mean
  std::set<std::string> unused;  // flags of the server without a meaning here
};

struct ServingExperiment {
  ServingChanges row;
  ExperimentConfig config;
};

// Reads the row without resolving the system that it describes. Throws InputError as
// ExperimentOfRow(), but for what that system refuses.
ServingChanges ChangesOfRow(const ServingRow& row, std::uint64_t seed);

// The experiment of a row: the server preset of its engine and version, its settings, and the
// closed loop of its measurement: `concurrency` users who all begin at once and send 10 times as
// many requests (or `requests`), each the next one when its answer is complete. Lengths are drawn
// uniformly from [range_ratio x L, L]; without a range, or with 1, prompts have their nominal
// length and outputs 0.9 to 1.1 times it. `changes`: to every experiment, as --set takes them.
//
// Throws InputError with one line: a cell or flag that is no value, a model, device or format that
// is not known, ranks that do not fit together, requests beyond the context, and deployments that
// are not simulated (prefill and decode apart, attention data parallelism, drafts).
ServingExperiment ExperimentOfRow(const ServingRow& row, std::uint64_t seed,
                                  std::span<const std::string> changes);

}  // namespace twin::run
