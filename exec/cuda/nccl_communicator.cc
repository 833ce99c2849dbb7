#include "exec/cuda/nccl_communicator.h"

#include <chrono>
#include <exception>
#include <functional>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "core/check.h"
#include "core/time.h"
#include "exec/comm/agreement.h"

namespace twin::exec::cuda {
namespace {

ncclDataType_t DataType(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
      return ncclBfloat16;
    case DType::kFp32:
      return ncclFloat32;
    default:
      break;
  }
  CHECK(false && "sums are of bf16 and fp32");
  return ncclFloat32;
}

using Clock = std::chrono::steady_clock;

constexpr auto kSpin = std::chrono::microseconds(200);
constexpr auto kSleep = std::chrono::microseconds(20);
constexpr auto kHealthInterval = std::chrono::milliseconds(5);

std::string LimitText(Duration limit) {
  std::ostringstream text;
  text << "not done within " << std::chrono::duration<double>(limit).count() << " s";
  return text.str();
}

// Throws if the group was aborted: then every call to it throws.
void CheckGroup(Communicator& host) {
  if (host.size() > 1) static_cast<void>(host.HasMessage(host.rank() == 0 ? 1 : 0));
}

// Waits until `done` returns true. Polls without pause for 200 us, then sleeps between polls. Every
// 5 ms, checks the group of `host`, which throws if it has failed, and calls `check_health`. Throws
// CommunicationError "`operation`: not done within ..." after `limit`, unless `patience` is
// unbounded.
void WaitBeside(Communicator& host, const std::string& operation, Patience patience, Duration limit,
                const std::function<bool()>& done, const std::function<void()>& check_health) {
  const Clock::time_point begin = Clock::now();
  Clock::time_point checked = begin;
  while (!done()) {
    const Clock::time_point now = Clock::now();
    if (now - checked >= kHealthInterval) {
      checked = now;
      CheckGroup(host);
      check_health();
    }
    if (patience == Patience::kBounded && now - begin > limit) {
      throw CommunicationError(host.rank(), operation, LimitText(limit));
    }
    if (now - begin > kSpin) std::this_thread::sleep_for(kSleep);
  }
}

}  // namespace

NcclCommunicator::NcclCommunicator(std::shared_ptr<const NcclLibrary> library, Communicator& host,
                                   Duration limit)
    : library_(std::move(library)),
      host_(host),
      limit_(limit),
      exceptions_(std::uncaught_exceptions()) {
  try {
    Connect();
  } catch (...) {
    GiveUp();
    throw;
  }
}

void NcclCommunicator::Connect() {
  const NcclFunctions& nccl = library_->functions();
  ncclUniqueId id{};
  const bool together = SucceedTogether(host_, [&] {
    const ncclResult_t result = rank() == 0 ? nccl.get_unique_id(&id) : ncclSuccess;
    if (result != ncclSuccess) {
      throw CommunicationError(rank(), "starting NCCL", nccl.get_error_string(result));
    }
  });
  if (!together) throw CommunicationError(rank(), "starting NCCL", "rank 0 could not");
  host_.Broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
  // Non-blocking calls, which are polled, so that a missing rank is detected.
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  Finish(nccl.comm_init_rank_config(&group_, size(), id, rank(), &config), "joining a NCCL group");
}

NcclCommunicator::~NcclCommunicator() {
  if (group_ == nullptr) return;
  if (std::uncaught_exceptions() > exceptions_) {
    GiveUp();
    return;
  }
  const NcclFunctions& nccl = library_->functions();
  try {
    Finish(nccl.comm_finalize(group_), "leaving a NCCL group");
    nccl.comm_destroy(std::exchange(group_, nullptr));
  } catch (const CommunicationError&) {
    GiveUp();
  }
}

void NcclCommunicator::GiveUp() {
  failed_ = true;
  if (group_ != nullptr) library_->functions().comm_abort(std::exchange(group_, nullptr));
}

void NcclCommunicator::Fail(const char* operation, const std::string& what) {
  GiveUp();
  throw CommunicationError(rank(), operation, what);
}

void NcclCommunicator::CheckUsable(const char* operation) const {
  if (failed_) throw CommunicationError(rank(), operation, "the group has failed");
}

void NcclCommunicator::Finish(ncclResult_t result, const char* operation) {
  const NcclFunctions& nccl = library_->functions();
  if (result == ncclInProgress) {
    const auto settled = [&] {
      if (nccl.comm_get_async_error(group_, &result) != ncclSuccess) result = ncclInternalError;
      return result != ncclInProgress;
    };
    try {
      WaitBeside(host_, operation, Patience::kBounded, limit_, settled, [] {});
    } catch (...) {
      GiveUp();
      throw;
    }
  }
  if (result != ncclSuccess) Fail(operation, nccl.get_error_string(result));
}

void NcclCommunicator::CheckHealth(const char* operation) {
  ncclResult_t state = ncclSuccess;
  const NcclFunctions& nccl = library_->functions();
  const ncclResult_t asked = nccl.comm_get_async_error(group_, &state);
  if (asked != ncclSuccess) state = asked;
  if (state != ncclSuccess && state != ncclInProgress) {
    Fail(operation, nccl.get_error_string(state));
  }
}

void NcclCommunicator::AllReduceSum(StreamView stream, void* values, std::int64_t count,
                                    DType dtype) {
  CheckUsable("all-reduce");
  Finish(library_->functions().all_reduce(values, values, static_cast<std::size_t>(count),
                                          DataType(dtype), ncclSum, group_, stream.get()),
         "all-reduce");
}

void NcclCommunicator::AllGather(StreamView stream, const void* own, void* all,
                                 std::int64_t bytes) {
  CheckUsable("all-gather");
  Finish(library_->functions().all_gather(own, all, static_cast<std::size_t>(bytes), ncclInt8,
                                          group_, stream.get()),
         "all-gather");
}

void NcclCommunicator::Send(StreamView stream, const void* values, std::int64_t bytes,
                            std::int32_t to) {
  CheckUsable("send");
  Finish(library_->functions().send(values, static_cast<std::size_t>(bytes), ncclInt8, to, group_,
                                    stream.get()),
         "send");
}

void NcclCommunicator::Receive(StreamView stream, void* values, std::int64_t bytes,
                               std::int32_t from) {
  CheckUsable("receive");
  Finish(library_->functions().receive(values, static_cast<std::size_t>(bytes), ncclInt8, from,
                                       group_, stream.get()),
         "receive");
}

void NcclCommunicator::Await(const Event& event, Patience patience) {
  constexpr const char* kOperation = "waiting for the device";
  CheckUsable(kOperation);
  try {
    WaitBeside(
        host_, kOperation, patience, limit_, [&] { return event.Passed(); },
        [&] { CheckHealth(kOperation); });
  } catch (...) {
    // Aborting the group ends the kernels that wait for other ranks on the device.
    GiveUp();
    throw;
  }
  // The event also passes if a collective has failed.
  CheckHealth(kOperation);
}

}  // namespace twin::exec::cuda
