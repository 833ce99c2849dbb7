// What a model on the CPU is used by.
#include "exec/cpu/cpu_executor.h"
#include "exec/cpu/cpu_model.h"
#include "exec/cpu/cpu_operations.h"
#include "exec/cpu/cpu_speed_probe.h"

namespace twin::exec {

std::unique_ptr<DeviceModel> CpuModel::WithSameWeights(kernels::ThreadPool& pool) const {
  return std::make_unique<CpuModel>(config_, weights_, positions_, pool, links_);
}

std::unique_ptr<Executor> CpuModel::MakeExecutor(const ExecutorConfig& config) {
  return std::make_unique<CpuExecutor>(*this, config);
}

std::unique_ptr<Operations> CpuModel::MakeOperations(const kernels::KvCacheView& cache) {
  return std::make_unique<CpuOperations>(config_, MatricesOf(*weights_), positions_, cache, pool_);
}

std::unique_ptr<SpeedProbe> CpuModel::MakeSpeedProbe() {
  return std::make_unique<CpuSpeedProbe>(MatricesOf(*weights_), pool_);
}

ModelWork CpuModel::WorkWith(DType kv_dtype) const {
  return WorkOf(config_.shape, *weights_, kv_dtype);
}

}  // namespace twin::exec
