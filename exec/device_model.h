// A model, or one rank's share of it, ready to compute on a device.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/dtype.h"
#include "exec/executor.h"
#include "exec/model/cache_shape.h"
#include "exec/model/model_config.h"
#include "exec/profile/model_work.h"
#include "exec/profile/operations.h"
#include "exec/rank_groups.h"
#include "exec/speed_probe.h"
#include "kernels/kv_cache.h"
#include "kernels/thread_pool.h"

namespace twin::exec {

// Executors and operations borrow the model. One of them computes at a time.
class DeviceModel {
 public:
  virtual ~DeviceModel() = default;

  // The configuration of the whole model, of which share() is this rank's part.
  [[nodiscard]] virtual const ModelConfig& config() const = 0;
  [[nodiscard]] virtual const RankLinks& links() const = 0;
  // Positions of the longest sequence.
  [[nodiscard]] virtual std::int32_t positions() const = 0;
  // The share of the model that this rank computes.
  [[nodiscard]] virtual const ModelConfig& share() const = 0;
  // The shape of the KV cache that this model writes: this rank's heads and layers.
  [[nodiscard]] kernels::KvCacheShape CacheShape(DType dtype, std::int64_t blocks,
                                                 std::int64_t block_size) const {
    return CacheShapeOf(share().shape, dtype, blocks, block_size);
  }

  // Makes a further model that computes with the same weights, on its own pool, at the same time as
  // this one: a replica. Borrows the pool. Null if the device cannot share weights.
  [[nodiscard]] virtual std::unique_ptr<DeviceModel> WithSameWeights(
      kernels::ThreadPool& /*pool*/) const {
    return nullptr;
  }

  // If the cache does not fit into the device's memory, throws std::bad_alloc or
  // kernels::cuda::DeviceError.
  virtual std::unique_ptr<Executor> MakeExecutor(const ExecutorConfig& config) = 0;

  // The operations of the model one by one, to be measured. `cache` is that of an executor of this
  // model.
  virtual std::unique_ptr<Operations> MakeOperations(const kernels::KvCacheView& cache) = 0;
  // Null if the device has no probe; then its speed is taken to be constant.
  virtual std::unique_ptr<SpeedProbe> MakeSpeedProbe() { return nullptr; }
  [[nodiscard]] virtual ModelWork WorkWith(DType kv_dtype) const = 0;
  // Decode-only steps are padded to the next of these batch sizes (ascending). Steps larger than
  // all of them are not padded; an empty list means no padding.
  [[nodiscard]] virtual std::vector<std::uint32_t> decode_buckets() const { return {}; }
};

}  // namespace twin::exec
