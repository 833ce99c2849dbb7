// What a real world serves with: a model, its memory, and the device that computes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "exec/backend.h"
#include "exec/cpu/cpu_model.h"
#include "exec/model/model_config.h"
#include "kernels/thread_pool.h"
#include "proto/experiment_config.h"
#include "sched/engine.h"

namespace twin::apps {

// REQUIRES, for all of them: a config whose world is real.

// The experiment as a real world on this machine serves it: every number that depends on the
// machine is filled in, so that the config runs again, and simulates, with the same KV cache.
// Threads; the context, at most what the model can; KV blocks, from `memory_bytes` where they are
// not given: system.memory's rule on so many bytes less the swap space, and at most 4 GiB (or one
// longest request) unless system.memory.utilization is given; no swap space where nothing swaps.
// Takes no memory for the model. Throws InputError (usage): CUDA or several ranks, a format that is
// not computed, weights that do not fit, a cache too small for one request.
ExperimentConfig OnThisMachine(const ExperimentConfig& config, std::int64_t memory_bytes);

// The model to serve, and where its weights are.
struct ServedModel {
  exec::ModelConfig config;
  std::filesystem::path weights;  // a model directory; empty: dummy weights
};

// Throws InputError: the model's config is damaged (data); system.model_shape is not that of
// system.model, or there are no weights and no world.real.dummy_weights (usage).
ServedModel ServedModelOf(const ExperimentConfig& config);

// Holds what a backend borrows.
struct ServingDevice {
  std::unique_ptr<kernels::ThreadPool> pool;
  std::unique_ptr<exec::CpuModel> model;
  std::unique_ptr<exec::Backend> backend;
};

// Loads the model and takes the memory. Prints the loader's warnings on stderr.
// REQUIRES: a config from OnThisMachine. Throws InputError (data), std::bad_alloc.
ServingDevice MakeServingDevice(const ExperimentConfig& config, ServedModel model,
                                const EngineConfig& engine);

}  // namespace twin::apps
