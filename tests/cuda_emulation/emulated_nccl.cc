#include "tests/cuda_emulation/emulated_nccl.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "kernels/float_formats.h"
#include "tests/cuda_emulation/emulated_device.h"

namespace twin::cuda_emulation {
namespace {

std::atomic<std::int64_t> patience_ms = 10'000;
std::atomic<int> live_ends = 0;

enum class Kind { kSum, kGather };

// What the ranks bring to one collective, and take from it.
struct Meeting {
  Kind kind{};
  std::size_t count = 0;
  ncclDataType_t type{};
  std::vector<std::vector<std::byte>> brought;
  std::vector<std::byte> result;
  int arrived = 0;
  int left = 0;
};

struct Group {
  std::mutex mutex;
  std::condition_variable changed;
  int size = 0;
  std::set<int> devices;
  int joined = 0;
  ncclResult_t state = ncclSuccess;  // once all have joined
  std::map<std::uint64_t, Meeting> meetings;
  // Messages by (from, to); a sender waits until its own is gone.
  std::map<std::pair<int, int>, std::vector<std::vector<std::byte>>> messages;

  void Fail(ncclResult_t why) {
    if (state == ncclSuccess) state = why;
    changed.notify_all();
  }
  // True if the condition came true; else the group has failed.
  template <class Condition>
  bool Wait(std::unique_lock<std::mutex>& lock, Condition&& condition) {
    const auto limit = std::chrono::milliseconds(patience_ms.load());
    changed.wait_for(lock, limit, [&] { return state != ncclSuccess || condition(); });
    if (state == ncclSuccess && !condition()) Fail(ncclRemoteError);
    return state == ncclSuccess;
  }
};

// One rank's end, kept by what it has enqueued.
struct End {
  std::shared_ptr<Group> group;
  int rank = 0;
  std::uint64_t collectives = 0;  // carried out
  bool leaving = false;
};

std::mutex groups_mutex;
std::map<std::uint64_t, std::weak_ptr<Group>> groups;
std::uint64_t last_id = 0;

std::size_t TypeBytes(ncclDataType_t type) {
  return type == ncclFloat32 ? 4 : type == ncclInt8 ? 1 : 2;
}

float Load(const std::byte* data, std::size_t index, ncclDataType_t type) {
  if (type == ncclFloat32) {
    float value = 0;
    std::memcpy(&value, data + index * sizeof(value), sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, data + index * sizeof(bits), sizeof(bits));
  return kernels::Bf16ToFloat(bits);
}

void Store(float value, std::byte* data, std::size_t index, ncclDataType_t type) {
  if (type == ncclFloat32) {
    std::memcpy(data + index * sizeof(value), &value, sizeof(value));
    return;
  }
  const std::uint16_t bits = kernels::FloatToBf16(value);
  std::memcpy(data + index * sizeof(bits), &bits, sizeof(bits));
}

void Conclude(Meeting& meeting) {
  const std::size_t bytes = meeting.count * TypeBytes(meeting.type);
  if (meeting.kind == Kind::kGather) {
    for (const auto& part : meeting.brought) {
      meeting.result.insert(meeting.result.end(), part.begin(), part.end());
    }
    return;
  }
  meeting.result.resize(bytes);
  for (std::size_t i = 0; i < meeting.count; ++i) {
    float sum = 0;
    for (const auto& part : meeting.brought) sum += Load(part.data(), i, meeting.type);
    Store(sum, meeting.result.data(), i, meeting.type);
  }
}

void Meet(End& end, Kind kind, const void* own, void* all, std::size_t count, ncclDataType_t type) {
  Group& group = *end.group;
  std::unique_lock lock(group.mutex);
  if (group.state != ncclSuccess) return;
  const std::uint64_t number = end.collectives++;
  Meeting& meeting = group.meetings[number];
  if (meeting.arrived == 0) {
    meeting.kind = kind;
    meeting.count = count;
    meeting.type = type;
    meeting.brought.resize(static_cast<std::size_t>(group.size));
  }
  if (meeting.kind != kind || meeting.count != count || meeting.type != type) {
    group.Fail(ncclInvalidUsage);
    return;
  }
  const auto* const begin = static_cast<const std::byte*>(own);
  meeting.brought[static_cast<std::size_t>(end.rank)].assign(begin,
                                                             begin + count * TypeBytes(type));
  if (++meeting.arrived == group.size) {
    Conclude(meeting);
    group.changed.notify_all();
  }
  if (!group.Wait(lock, [&] { return meeting.arrived == group.size; })) return;
  std::memcpy(all, meeting.result.data(), meeting.result.size());
  if (++meeting.left == group.size) group.meetings.erase(number);
}

void Deliver(End& end, const void* data, std::size_t bytes, int to) {
  Group& group = *end.group;
  std::unique_lock lock(group.mutex);
  auto& queue = group.messages[{end.rank, to}];
  const auto* const begin = static_cast<const std::byte*>(data);
  queue.emplace_back(begin, begin + bytes);
  group.changed.notify_all();
  group.Wait(lock, [&] { return queue.empty(); });
}

void Take(End& end, void* data, std::size_t bytes, int from) {
  Group& group = *end.group;
  std::unique_lock lock(group.mutex);
  auto& queue = group.messages[{from, end.rank}];
  if (!group.Wait(lock, [&] { return !queue.empty(); })) return;
  if (queue.front().size() != bytes) {
    group.Fail(ncclInvalidUsage);
    return;
  }
  std::memcpy(data, queue.front().data(), bytes);
  queue.erase(queue.begin());
  group.changed.notify_all();
}

}  // namespace
}  // namespace twin::cuda_emulation

// NCCL's own opaque type.
struct ncclComm {
  std::shared_ptr<twin::cuda_emulation::End> end;
};

namespace twin::cuda_emulation {
namespace {

ncclResult_t GetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}

const char* GetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "internal error";
  }
}

ncclResult_t GetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(groups_mutex);
  ++last_id;
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id->internal, &last_id, sizeof(last_id));
  return ncclSuccess;
}

std::shared_ptr<Group> FindGroup(const ncclUniqueId& id, int size) {
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof(number));
  const std::lock_guard lock(groups_mutex);
  std::shared_ptr<Group> group = groups[number].lock();
  if (group == nullptr) {
    group = std::make_shared<Group>();
    group->size = size;
    groups[number] = group;
  }
  return group;
}

ncclResult_t CommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                ncclConfig_t* config) {
  if (config == nullptr || config->magic != 0xcafebeef || rank < 0 || rank >= size) {
    return ncclInvalidArgument;
  }
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return ncclUnhandledCudaError;
  auto end = std::make_shared<End>();
  end->group = FindGroup(id, size);
  end->rank = rank;
  *comm = new ncclComm{end};
  ++live_ends;
  Group& group = *end->group;
  std::unique_lock lock(group.mutex);
  ++group.joined;
  if (!group.devices.insert(device).second || group.size != size) group.Fail(ncclInvalidUsage);
  group.changed.notify_all();
  if (config->blocking == 0) return ncclInProgress;
  group.Wait(lock, [&] { return group.joined == group.size; });
  return group.state;
}

ncclResult_t CommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  Group& group = *comm->end->group;
  const std::lock_guard lock(group.mutex);
  *state = group.state;
  if (group.state == ncclSuccess && group.joined < group.size) *state = ncclInProgress;
  return ncclSuccess;
}

ncclResult_t CommFinalize(ncclComm_t comm) {
  if (comm->end->leaving) return ncclInvalidUsage;
  comm->end->leaving = true;
  return ncclInProgress;
}

ncclResult_t CommDestroy(ncclComm_t comm) {
  delete comm;
  --live_ends;
  return ncclSuccess;
}

ncclResult_t CommAbort(ncclComm_t comm) {
  {
    Group& group = *comm->end->group;
    const std::lock_guard lock(group.mutex);
    group.Fail(ncclRemoteError);
  }
  return CommDestroy(comm);
}

// What all calls of a group that is being joined, or was left, answer.
ncclResult_t Usable(ncclComm_t comm) {
  Group& group = *comm->end->group;
  const std::lock_guard lock(group.mutex);
  if (comm->end->leaving || group.joined < group.size) return ncclInvalidUsage;
  return group.state;
}

template <class Operation>
ncclResult_t Enqueue(cudaStream_t stream, Operation&& operation) {
  return EnqueueOnStream(stream, std::forward<Operation>(operation)) == cudaSuccess
             ? ncclSuccess
             : ncclUnhandledCudaError;
}

ncclResult_t Collective(Kind kind, const void* own, void* all, std::size_t count,
                        ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  const ncclResult_t usable = Usable(comm);
  if (usable != ncclSuccess) return usable;
  const std::size_t bytes = count * TypeBytes(type);
  const auto ranks = static_cast<std::size_t>(comm->end->group->size);
  const std::size_t all_bytes = kind == Kind::kGather ? bytes * ranks : bytes;
  if (!IsDeviceMemory(own, bytes) || !IsDeviceMemory(all, all_bytes)) return ncclInvalidArgument;
  return Enqueue(stream, [end = comm->end, kind, own, all, count, type] {
    Meet(*end, kind, own, all, count, type);
  });
}

ncclResult_t AllReduce(const void* own, void* all, std::size_t count, ncclDataType_t type,
                       ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  const bool known = type == ncclFloat32 || type == ncclBfloat16;
  if (operation != ncclSum || !known) return ncclInvalidArgument;
  return Collective(Kind::kSum, own, all, count, type, comm, stream);
}

ncclResult_t AllGather(const void* own, void* all, std::size_t count, ncclDataType_t type,
                       ncclComm_t comm, cudaStream_t stream) {
  return Collective(Kind::kGather, own, all, count, type, comm, stream);
}

ncclResult_t Send(const void* data, std::size_t count, ncclDataType_t type, int to, ncclComm_t comm,
                  cudaStream_t stream) {
  const ncclResult_t usable = Usable(comm);
  if (usable != ncclSuccess) return usable;
  const std::size_t bytes = count * TypeBytes(type);
  if (!IsDeviceMemory(data, bytes)) return ncclInvalidArgument;
  return Enqueue(stream, [end = comm->end, data, bytes, to] { Deliver(*end, data, bytes, to); });
}

ncclResult_t Receive(void* data, std::size_t count, ncclDataType_t type, int from, ncclComm_t comm,
                     cudaStream_t stream) {
  const ncclResult_t usable = Usable(comm);
  if (usable != ncclSuccess) return usable;
  const std::size_t bytes = count * TypeBytes(type);
  if (!IsDeviceMemory(data, bytes)) return ncclInvalidArgument;
  return Enqueue(stream, [end = comm->end, data, bytes, from] { Take(*end, data, bytes, from); });
}

}  // namespace

exec::cuda::NcclFunctions EmulatedNccl() {
  return {.get_version = &GetVersion,
          .get_error_string = &GetErrorString,
          .get_unique_id = &GetUniqueId,
          .comm_init_rank_config = &CommInitRankConfig,
          .comm_get_async_error = &CommGetAsyncError,
          .comm_finalize = &CommFinalize,
          .comm_destroy = &CommDestroy,
          .comm_abort = &CommAbort,
          .all_reduce = &AllReduce,
          .all_gather = &AllGather,
          .send = &Send,
          .receive = &Receive};
}

void SetNcclPatience(std::chrono::milliseconds patience) { patience_ms = patience.count(); }

int LiveNcclEnds() { return live_ends; }

}  // namespace twin::cuda_emulation
