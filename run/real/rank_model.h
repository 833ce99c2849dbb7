// One rank's part of a served model, loaded.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/model_options.h"
#include "exec/comm/communicator.h"
#include "exec/cuda/load_model.h"
#include "exec/device_model.h"
#include "exec/model/model_config.h"
#include "exec/rank_groups.h"
#include "kernels/thread_pool.h"
#include "run/real/model_device.h"
#include "run/run_control.h"

namespace twin::run {

// Options that are equal on all ranks.
struct RankModelOptions {
  exec::ModelConfig config;
  std::filesystem::path weights;  // a model directory; empty = dummy weights
  std::uint64_t seed = 0;         // of dummy weights
  DType format = DType::kFp32;
  ModelOptions model_options = {};
  Parallelism grid = {};
  std::int32_t positions = 0;
  std::int32_t threads = 1;  // of each rank
  ModelDevice device = ModelDevice::kCpu;
  exec::StepSizes largest_step = {};              // CUDA only
  std::vector<std::int64_t> decode_batches = {};  // as in CudaModelOptions
};

// Owns everything that its model borrows.
struct RankModel {
  std::unique_ptr<exec::RankGroups> groups;
  std::unique_ptr<kernels::ThreadPool> pool;
  std::unique_ptr<exec::DeviceModel> model;
};

// Loads this rank's share. Ranks on one machine take its CUDA devices in turn. Collective. If
// another rank failed, the model is null, and that rank gives the reason. Rank 0 reports the
// warnings of all ranks. Throws InputError (data), std::bad_alloc, kernels::cuda::DeviceError,
// CommunicationError.
RankModel LoadRankModel(const RankModelOptions& options, exec::Communicator& world,
                        RunControl& control);

// The bytes of KV cache for which every rank has room. Collective; for models on CUDA devices.
// Throws kernels::cuda::DeviceError, CommunicationError.
std::int64_t MeasureKvBytesOfAll(exec::DeviceModel& model, double utilization,
                                 exec::Communicator& world);

}  // namespace twin::run
