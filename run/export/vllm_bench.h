// A run's results in the form that `vllm bench serve --save-result` writes, for scripts made for
// it.
#pragma once

#include <filesystem>
#include <string>

#include "config/experiment_config.h"
#include "run/files/record_file.h"
#include "run/record/recorded_run.h"
#include "run/record/summary.h"

namespace twin::run {

enum class VllmDetail : std::uint8_t {
  kTotals,      // what vLLM writes without --save-detailed
  kPerRequest,  // and the lists of --save-detailed: all tokens' times
};

// The JSON text. All keys of vLLM 0.11's result are there; keys for which a run has no value
// (tokenizer, label) are null or empty. Scalars come from `summary`; the per-second maxima and the
// lists from the events, counted as vLLM counts them, over the requests inside the measured window.
//
// Differences in meaning: requests are sent when they arrive, so the queue of the client is empty
// and its times are 0; undefined statistics are 0 as there; the lists are in seconds, scalars in
// milliseconds; rejected, cancelled and unfinished requests count as failed and have an entry in
// `errors`; generated texts are empty.
// Cost: memory for all token times of the run.
std::string VllmBenchJson(const ExperimentConfig& config, const RecordHeader& header,
                          const RecordedRun& events, const Summary& summary, VllmDetail detail);

// Writes vllm_bench.json into a run directory that holds record.pb. `summary` is the run's.
// Throws InputError (usage) if it holds none.
void ExportVllmBench(const std::filesystem::path& run, const Summary& summary, VllmDetail detail);

}  // namespace twin::run
