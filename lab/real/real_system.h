// What a real world serves with: a model, its memory, and the device that computes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "exec/backend.h"
#include "exec/comm/thread_ranks.h"
#include "exec/model/model_config.h"
#include "lab/real/rank_model.h"
#include "lab/run_control.h"
#include "proto/experiment_config.h"
#include "sched/engine.h"

namespace twin::lab {

// REQUIRES, for all of them: a config whose world is real.

// The experiment as a real world on this machine serves it: every number that depends on the
// machine is filled in, so that the config runs again, and simulates, with the same KV cache.
// Threads; the context, at most what the model can; KV blocks, from `memory_bytes` where they are
// not given: system.memory's rule on so many bytes less the swap space, and at most 4 GiB (or one
// longest request) unless system.memory.utilization is given; no swap space where nothing swaps.
// Ranks share the machine: threads and memory are divided among them, and what the config says of
// threads, memory and blocks is each rank's.
// On CUDA devices no number of blocks is filled in: it is measured with the model loaded, of
// system.memory.utilization, 0.9 if that is absent.
// Takes no memory for the model. Throws InputError (usage): a device that this build does not have,
// a format that is not computed, weights that do not fit, a cache too small for one request;
// (data): a device that is not there.
ExperimentConfig OnThisMachine(const ExperimentConfig& config, std::int64_t memory_bytes);

// The model to serve, and where its weights are.
struct ServedModel {
  exec::ModelConfig config;
  std::filesystem::path weights;  // a model directory; empty: dummy weights
};

// Throws InputError: the model's config is damaged (data); system.model_shape is not that of
// system.model, or there are no weights and no world.real.dummy_weights (usage).
ServedModel ServedModelOf(const ExperimentConfig& config);

// A model on its device, or on those of all ranks: threads, or with `processes`, the group of all
// of them, processes of which this is rank 0.
class ServingDevice {
 public:
  // Loads the model, and fills in the config's number of blocks where it is to be measured. Reports
  // the loader's warnings. REQUIRES: a config from OnThisMachine.
  // Throws InputError (data; usage: no room for the cache), std::bad_alloc,
  // kernels::cuda::DeviceError, CommunicationError.
  ServingDevice(ExperimentConfig& config, const ServedModel& model, exec::Communicator* processes,
                RunControl& control);

  [[nodiscard]] const exec::ModelConfig& model_config() const { return rank_.model->config(); }

  // Takes the memory of the cache. Borrows this object. Throws likewise.
  [[nodiscard]] std::unique_ptr<exec::Backend> MakeBackend(const EngineConfig& engine,
                                                           DType kv_dtype);

 private:
  std::unique_ptr<exec::ThreadFollowers> followers_;
  exec::Communicator* world_ = nullptr;
  RankModel rank_;
};

// What the other processes do meanwhile. Returns when rank 0's backend is gone, or false at once
// where another rank failed, which says why. Throws likewise.
bool FollowServing(const ExperimentConfig& config, const ServedModel& model,
                   exec::Communicator& processes);

}  // namespace twin::lab
