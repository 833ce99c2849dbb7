// What a real world serves with: a model, its memory, and the device that computes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "apps/rank_model.h"
#include "exec/backend.h"
#include "exec/comm/thread_ranks.h"
#include "exec/model/model_config.h"
#include "proto/experiment_config.h"
#include "sched/engine.h"

namespace twin::apps {

// REQUIRES, for all of them: a config whose world is real.

// The experiment as a real world on this machine serves it: every number that depends on the
// machine is filled in, so that the config runs again, and simulates, with the same KV cache.
// Threads; the context, at most what the model can; KV blocks, from `memory_bytes` where they are
// not given: system.memory's rule on so many bytes less the swap space, and at most 4 GiB (or one
// longest request) unless system.memory.utilization is given; no swap space where nothing swaps.
// Ranks share the machine: threads and memory are divided among them, and what the config says of
// threads, memory and blocks is each rank's.
// Takes no memory for the model. Throws InputError (usage): CUDA, a format that is not computed,
// weights that do not fit, a cache too small for one request.
ExperimentConfig OnThisMachine(const ExperimentConfig& config, std::int64_t memory_bytes);

// The model to serve, and where its weights are.
struct ServedModel {
  exec::ModelConfig config;
  std::filesystem::path weights;  // a model directory; empty: dummy weights
};

// Throws InputError: the model's config is damaged (data); system.model_shape is not that of
// system.model, or there are no weights and no world.real.dummy_weights (usage).
ServedModel ServedModelOf(const ExperimentConfig& config);

// Holds what a backend borrows, and the other ranks where they are threads.
struct ServingDevice {
  std::unique_ptr<exec::ThreadFollowers> followers;
  RankModel rank;
  std::unique_ptr<exec::Backend> backend;
};

// Loads the model and takes the memory. Prints the loader's warnings on stderr. Ranks are threads,
// or with `processes`, the group of all of them, processes of which this is rank 0.
// REQUIRES: a config from OnThisMachine. Throws InputError (data), std::bad_alloc,
// CommunicationError.
ServingDevice MakeServingDevice(const ExperimentConfig& config, const ServedModel& model,
                                const EngineConfig& engine, exec::Communicator* processes);

// What the other processes do meanwhile. Returns when rank 0's device is gone, or false at once
// where another rank failed, which says why. Throws likewise.
bool FollowServing(const ExperimentConfig& config, const ServedModel& model,
                   exec::Communicator& processes);

}  // namespace twin::apps
