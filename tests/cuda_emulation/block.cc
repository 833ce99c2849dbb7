#include "tests/cuda_emulation/block.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/check.h"

namespace twin::cuda_emulation {
namespace {

// Stacks of the calling thread that no device thread uses now.
std::vector<std::unique_ptr<Fiber>>& IdleFibers() {
  static thread_local std::vector<std::unique_ptr<Fiber>> fibers;
  return fibers;
}

Fiber* TakeFiber() {
  auto& idle = IdleFibers();
  if (idle.empty()) return std::make_unique<Fiber>().release();
  Fiber* fiber = idle.back().release();
  idle.pop_back();
  return fiber;
}

void GiveBack(Fiber* fiber) { IdleFibers().emplace_back(fiber); }

std::string Text(const CodePlace& place) {
  return std::string(place.file) + ":" + std::to_string(place.line);
}

// In the blocks that start early: each thread keeps a stack.
constexpr std::uint64_t kEarlyThreads = 1024;

// A pattern that is a NaN in every float format and -1 as an integer.
void Poison(std::byte* memory, std::size_t bytes) { std::memset(memory, 0xFF, bytes); }

}  // namespace

DevicePlace& CurrentPlace() {
  static thread_local DevicePlace place;
  return place;
}

Block& Block::Current() {
  CHECK(CurrentPlace().thread != nullptr);
  return *CurrentPlace().thread->block;
}

Block::Block(const Kernel& kernel)
    : kernel_(kernel),
      threads_(std::size_t{kernel.grid.threads.x} * kernel.grid.threads.y * kernel.grid.threads.z),
      warps_((threads_.size() + kWarpSize - 1) / kWarpSize),
      dynamic_(new std::byte[std::max<std::size_t>(kernel.grid.shared_bytes, 1)]),
      ready_(threads_.size()) {}

void Block::Start(uint3 index, bool descending, bool early) {
  Poison(dynamic_.get(), kernel_.grid.shared_bytes);
  for (Variable& variable : variables_) Poison(variable.memory.get(), variable.bytes);
  for (Warp& warp : warps_) {
    warp.ended = 0;
    for (Meeting& meeting : warp.meetings) {
      meeting.arrived = 0;
      meeting.waiting.clear();
    }
  }
  waiting_.clear();
  ended_ = 0;
  index_ = index;
  early_ = early;
  CurrentPlace() = {nullptr, index_, &kernel_.grid};
  const auto count = static_cast<unsigned>(threads_.size());
  starting_ = true;
  for (unsigned i = 0; i < count && failure_.empty(); ++i) Begin(descending ? count - 1 - i : i);
  starting_ = false;
  RunReady();
  CurrentPlace() = {};
}

std::string Block::Finish() {
  CurrentPlace() = {nullptr, index_, &kernel_.grid};
  early_ = false;
  MakeReady(held_);
  RunReady();
  CurrentPlace() = {};
  if (failure_.empty() && ended_ < threads_.size()) {
    failure_ = waiting_.empty() ? "threads wait for lanes of their warp that never come"
                                : "threads wait at " + Text(barrier_) + " for ones that never come";
  }
  for (DeviceThread& thread : threads_) {
    if (thread.fiber == nullptr) continue;
    thread.fiber->Abandon();
    GiveBack(thread.fiber);
    thread.fiber = nullptr;
  }
  ready_count_ = 0;
  return failure_;
}

void Block::RunReady() {
  while (failure_.empty() && ready_count_ > 0) GoOn(TakeReady());
}

// Behind those that are ready; `threads` is empty then.
void Block::MakeReady(std::vector<unsigned>& threads) {
  for (const unsigned thread : threads) {
    const std::size_t place = first_ready_ + ready_count_++;
    ready_[place < ready_.size() ? place : place - ready_.size()] = thread;
  }
  threads.clear();
}

// The one that has been ready for longest. REQUIRES: there is one.
unsigned Block::TakeReady() {
  const unsigned thread = ready_[first_ready_];
  if (++first_ready_ == ready_.size()) first_ready_ = 0;
  --ready_count_;
  return thread;
}

void Block::Begin(unsigned number) {
  DeviceThread& thread = threads_[number];
  const dim3& size = kernel_.grid.threads;
  thread = {.index = {number % size.x, number / size.x % size.y, number / size.x / size.y},
            .number = number,
            .block = this,
            .fiber = TakeFiber()};
  CurrentPlace().thread = &thread;
  thread.fiber->Start(
      [](void* argument) {
        auto* self = static_cast<DeviceThread*>(argument);
        self->block->kernel_.body();
        self->done = true;
      },
      &thread);
  AfterLeaving();
}

void Block::GoOn(unsigned number) {
  DeviceThread& thread = threads_[number];
  CurrentPlace().thread = &thread;
  thread.fiber->Resume();
  AfterLeaving();
}

// Ends the turn of the thread that came back, which is the last one that ran.
void Block::AfterLeaving() {
  DeviceThread& thread = Self();
  CurrentPlace().thread = nullptr;
  if (!thread.done) return;
  GiveBack(thread.fiber);
  thread.fiber = nullptr;
  End(thread);
}

void Block::End(const DeviceThread& thread) {
  ++ended_;
  const unsigned lane = 1U << (thread.number % kWarpSize);
  Warp& warp = warps_[thread.number / kWarpSize];
  warp.ended |= lane;
  if (early_ && failure_.empty()) {
    failure_ = "a thread ends without a wait for the kernels in front of its own";
  }
  if (!waiting_.empty() && failure_.empty()) {
    failure_ = "a thread ends while others wait at the barrier of " + Text(barrier_);
  }
  for (const Meeting& meeting : warp.meetings) {
    if (meeting.arrived != 0 && (meeting.mask & lane) != 0 && failure_.empty()) {
      failure_ = "a lane ends while its warp waits for it at " + Text(meeting.place);
    }
  }
}

DeviceThread& Block::Self() { return threads_[CurrentPlace().thread->number]; }

// Goes on with the thread that is ready, as RunReady() would.
void Block::Wait() {
  Fiber& fiber = *Self().fiber;
  if (starting_ || ready_count_ == 0 || !failure_.empty()) {
    fiber.Suspend();
    return;
  }
  DeviceThread& next = threads_[TakeReady()];
  CurrentPlace().thread = &next;
  fiber.SuspendInFavourOf(*next.fiber);
}

// Leaves nothing on the fiber's stack that would have to be given back: it is given up.
void Block::Fail(const char* what, CodePlace place) {
  if (failure_.empty()) failure_ = std::string(what) + " at " + Text(place);
  for (;;) Wait();
}

void Block::AwaitEarlierKernels() {
  if (!early_) return;
  held_.push_back(Self().number);
  Wait();
}

void Block::Barrier(CodePlace place) {
  if (ended_ > 0) Fail("a barrier behind the end of a thread", place);
  if (waiting_.empty()) {
    barrier_ = place;
  } else if (!(barrier_ == place)) {
    Fail("threads of a block wait at different barriers, one of them", place);
  }
  if (waiting_.size() + 1 < threads_.size()) {
    waiting_.push_back(Self().number);
    Wait();
    return;
  }
  MakeReady(waiting_);
}

const std::array<std::uint64_t, kWarpSize>& Block::Exchange(unsigned mask, std::uint64_t value,
                                                            CodePlace place) {
  const DeviceThread& self = Self();
  const unsigned lane = self.number % kWarpSize;
  Warp& warp = warps_[self.number / kWarpSize];
  if (((mask >> lane) & 1U) == 0) Fail("a lane that is not in its own mask", place);
  const auto first = self.number / kWarpSize * kWarpSize;
  const auto lanes = static_cast<unsigned>(threads_.size()) - first;
  const unsigned present = lanes >= kWarpSize ? ~0U : (1U << lanes) - 1;
  if ((mask & ~present) != 0) Fail("a mask with lanes that the block lacks", place);
  if ((mask & warp.ended) != 0) Fail("a mask with a lane that has ended", place);
  auto found = std::find_if(warp.meetings.begin(), warp.meetings.end(),
                            [&](const Meeting& meeting) { return meeting.mask == mask; });
  Meeting& meeting = found != warp.meetings.end() ? *found : warp.meetings.emplace_back();
  if (meeting.arrived == 0) {
    meeting.mask = mask;
    meeting.place = place;
  } else if (!(meeting.place == place)) {
    Fail("lanes of a warp meet in different lines, one of them", place);
  }
  // Two arrays in turn: a lane may give its next value before another has read this one.
  auto& values = meeting.values[meeting.turn % 2];
  values[lane] = value;
  meeting.arrived |= 1U << lane;
  if (meeting.arrived != mask) {
    meeting.waiting.push_back(self.number);
    Wait();
    return values;
  }
  MakeReady(meeting.waiting);
  meeting.arrived = 0;
  ++meeting.turn;
  return values;
}

std::byte* Block::Shared(const void* key, std::size_t bytes) {
  for (const Variable& variable : variables_) {
    if (variable.key == key) return variable.memory.get();
  }
  variables_.push_back({key, bytes, std::unique_ptr<std::byte[]>(new std::byte[bytes])});
  Poison(variables_.back().memory.get(), bytes);
  return variables_.back().memory.get();
}

GridRun::GridRun(std::shared_ptr<const Kernel> kernel)
    : kernel_(std::move(kernel)),
      blocks_(std::uint64_t{kernel_->grid.blocks.x} * kernel_->grid.blocks.y *
              kernel_->grid.blocks.z) {}

uint3 GridRun::IndexOf(std::uint64_t number) const {
  const dim3& size = kernel_->grid.blocks;
  return {static_cast<unsigned>(number % size.x), static_cast<unsigned>(number / size.x % size.y),
          static_cast<unsigned>(number / size.x / size.y)};
}

namespace {

// Threads start in either order, so that a missing barrier shows.
bool Descending(std::uint64_t block) { return block % 2 == 1; }

}  // namespace

void GridRun::StartEarly() {
  const dim3& size = kernel_->grid.threads;
  const std::uint64_t threads = std::uint64_t{size.x} * size.y * size.z;
  const std::uint64_t most = std::clamp<std::uint64_t>(kEarlyThreads / threads, 1, kEarlyBlocks);
  for (std::uint64_t i = 0; i < std::min(blocks_, most); ++i) {
    early_.push_back(std::make_unique<Block>(*kernel_));
    early_.back()->Start(IndexOf(i), Descending(i), /*early=*/true);
  }
}

std::string GridRun::Finish() {
  std::string failure;
  for (const std::unique_ptr<Block>& block : early_) {
    // All of them: a suspended thread keeps its stack.
    std::string of_block = block->Finish();
    if (failure.empty()) failure = std::move(of_block);
  }
  if (early_.size() == blocks_) return failure;
  Block block(*kernel_);
  for (std::uint64_t i = early_.size(); i < blocks_ && failure.empty(); ++i) {
    block.Start(IndexOf(i), Descending(i), /*early=*/false);
    failure = block.Finish();
  }
  return failure;
}

}  // namespace twin::cuda_emulation
