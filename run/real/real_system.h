// Sets up what a real world needs on this machine: a model, its memory, and its device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "config/experiment_config.h"
#include "exec/backend.h"
#include "exec/comm/thread_ranks.h"
#include "exec/model/model_config.h"
#include "exec/speed_probe.h"
#include "run/real/rank_model.h"
#include "run/real/served_model.h"
#include "run/run_control.h"
#include "sched/engine.h"

namespace twin::run {

// All functions here REQUIRE a config whose world is real.

// Fills in every field that depends on this machine, so that the same config runs again, and
// simulates, with the same KV cache:
//  - threads: all cores, divided among the ranks and replicas;
//  - context: at most the model's positions;
//  - KV blocks on a CPU, unless given: the rule of system.memory applied to `memory_bytes` less the
//    swap space, limited to 4 GiB (or one longest request) unless system.memory.utilization is set;
//  - KV blocks on CUDA devices stay open: they are measured after the model has been loaded, as the
//    share system.memory.utilization (default 0.9) of the device;
//  - swap space: none if the policy does not swap.
// A draft model takes its share of the memory, and its blocks are as many as the served model's.
// Ranks and replicas share the machine: the result has the threads, memory and blocks of one rank
// of one replica. Replicas, which are possible on a CPU only, share the weights. Allocates no
// memory for the model. Throws InputError (usage) for a device that this build lacks, a number
// format that the device cannot compute, replicas of a grid or on CUDA devices, drafts that nothing
// computes, weights that do not fit, or a cache too small for one request; (data) for a device that
// this machine lacks.
ExperimentConfig ResolveForThisMachine(const ExperimentConfig& config, std::int64_t memory_bytes);

// The models of an experiment.
struct ServedModels {
  ComputedModel target;                // the model whose tokens are served
  std::optional<ComputedModel> draft;  // speculation.model; has the same vocabulary
};

// Finds the models that the experiment names. Throws InputError as ReadServedModel()
// (served_model.h), and (usage) if system.model_shape contradicts system.model, if there is neither
// a model directory nor world.real.dummy_weights, or if the vocabularies differ.
ServedModels FindServedModels(const ExperimentConfig& config);

// A model that is loaded on its device, or divided over the devices of several ranks, and the draft
// model beside it. Ranks are threads of this process, or the group `processes`, in which this
// process is rank 0.
class ServingDevice {
 public:
  // Loads the model, and fills in the config's KV blocks if they are measured. Reports the loader's
  // warnings to `control`. REQUIRES: a config from ResolveForThisMachine. Throws InputError (data;
  // usage: no room for the cache), std::bad_alloc, kernels::cuda::DeviceError, CommunicationError.
  ServingDevice(ExperimentConfig& config, const ServedModels& models, exec::Communicator* processes,
                RunControl& control);

  [[nodiscard]] const exec::ModelConfig& model_config() const { return rank_.model->config(); }

  // Makes the speed probe. Null if the device has none, if the model is divided over several ranks,
  // or if there are several replicas, which would compute at the same time as the probe. The probe
  // borrows this object.
  [[nodiscard]] std::unique_ptr<exec::SpeedProbe> MakeSpeedProbe();

  // Makes one backend for each replica, and allocates their KV caches. The backends borrow this
  // object. Throws as the constructor.
  [[nodiscard]] std::vector<std::unique_ptr<exec::Backend>> MakeBackends(const EngineConfig& engine,
                                                                         DType kv_dtype);

 private:
  void LoadDraftModels(const RankModelOptions& options, RunControl& control);

  std::unique_ptr<exec::ThreadFollowers> followers_;
  exec::Communicator* world_ = nullptr;
  std::optional<SpeculationConfig> speculation_;
  RankModel rank_;
  std::vector<RankModel> further_replicas_;  // share the weights of the first one
  // One model for each replica; empty without a draft model. They borrow the pools of the replicas.
  std::vector<std::unique_ptr<exec::DeviceModel>> draft_models_;
};

// Runs on every rank but rank 0: executes rank 0's plans until its backend is destroyed. Returns
// false at once if another rank failed, which reports the reason. Throws as ServingDevice.
bool FollowServing(const ExperimentConfig& config, const ComputedModel& model,
                   exec::Communicator& processes);

}  // namespace twin::run
