#include "kernels/cuda/attention.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "core/check.h"
#include "kernels/cuda/attention_generic.h"
#include "kernels/cuda/attention_split.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/event.h"
#include "kernels/cuda/flashinfer/planned_attention.h"

namespace twin::kernels::cuda {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kPlansInFlight = 8;

// Range of a kernel's plan in the integer workspace.
struct Section {
  std::size_t begin = 0;
  std::size_t bytes = 0;
};

// The kernels for one window size; null if the generic kernel is used.
struct WindowKernels {
  std::int64_t window = 0;
  std::unique_ptr<PlannedAttention> decode;
  std::unique_ptr<PlannedAttention> prefill;
  std::unique_ptr<PlannedAttention> short_prefill;  // kFa2, if `prefill` is kFa3
  Section decode_plan;
  Section prefill_plan;
};

// Pinned staging buffer of a plan.
struct Staging {
  explicit Staging(std::size_t bytes) : memory(bytes, "attention plans") {}
  PinnedBuffer memory;
  Event sent{Event::Kind::kOrder};
  bool used = false;
};

std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// Converts the exceptions of FlashInfer to DeviceError.
template <class Body>
void AsDeviceError(const char* what, Body&& body) {
  try {
    body();
  } catch (const DeviceError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw DeviceError(what, OneLine(error.what()));
  }
}

std::vector<std::int64_t> DistinctWindows(const AttentionShape& shape) {
  std::vector<std::int64_t> windows = shape.windows;
  if (windows.empty()) windows.push_back(0);
  std::sort(windows.begin(), windows.end());
  windows.erase(std::unique(windows.begin(), windows.end()), windows.end());
  return windows;
}

}  // namespace

std::int64_t Multiprocessors() {
  int device = 0;
  int count = 0;
  CheckCuda(cudaGetDevice(&device), "cudaGetDevice");
  CheckCuda(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
            "asking for the number of multiprocessors");
  return count;
}

class PagedAttention::State {
 public:
  State(const AttentionShape& shape, const AttentionChoice& choice, std::int64_t rows_max,
        std::int64_t sequences_max);

  void Plan(StreamView stream, const AttentionWork& work);
  void Run(StreamView stream, const AttentionCall& call, std::int64_t window);
  [[nodiscard]] std::int64_t device_bytes() const {
    return static_cast<std::int64_t>(float_bytes_ + int_bytes_);
  }

 private:
  void AddWindow(std::int64_t window, const PlanLimits& limits);
  Section Reserve(std::size_t bytes);
  [[nodiscard]] PlannedAttention* Prefill(const WindowKernels& kernels) const;
  void PlanPart(StreamView stream, PlannedAttention* kernel, const AttentionPart& part,
                const Section& section, const Staging& staging);
  void RunPart(StreamView stream, const PlannedAttention* kernel, const AttentionPart& part,
               const AttentionCall& call, std::int64_t window);

  AttentionShape shape_;
  AttentionChoice choice_;
  PlanLimits limits_;
  std::vector<WindowKernels> windows_;
  std::size_t float_bytes_ = 0;
  std::size_t int_bytes_ = 0;
  std::unique_ptr<DeviceBuffer> floats_;
  std::unique_ptr<DeviceBuffer> ints_;
  std::array<std::unique_ptr<Staging>, kPlansInFlight> staging_;
  std::size_t turn_ = 0;
  AttentionSplit split_;
};

PagedAttention::State::State(const AttentionShape& shape, const AttentionChoice& choice,
                             std::int64_t rows_max, std::int64_t sequences_max)
    : shape_(shape),
      choice_(choice),
      limits_{.rows = rows_max, .sequences = sequences_max, .multiprocessors = Multiprocessors()} {
  for (const std::int64_t window : DistinctWindows(shape)) AddWindow(window, limits_);
  if (int_bytes_ == 0) return;
  floats_ = std::make_unique<DeviceBuffer>(float_bytes_, "the attention workspace");
  ints_ = std::make_unique<DeviceBuffer>(int_bytes_, "attention plans");
  for (auto& staging : staging_) staging = std::make_unique<Staging>(int_bytes_);
}

void PagedAttention::State::AddWindow(std::int64_t window, const PlanLimits& limits) {
  WindowKernels kernels;
  kernels.window = window;
  const auto make = [&](AttentionKernel kernel, std::unique_ptr<PlannedAttention>& place) {
    if (kernel == AttentionKernel::kGeneric) return std::size_t{0};
    AsDeviceError("making attention",
                  [&] { place = MakePlannedAttention(kernel, shape_, window); });
    const PlanSizes sizes = SizesOfPlan(kernel, shape_, limits);
    // All kernels share the float workspace, because they run in stream order.
    float_bytes_ = std::max(float_bytes_, sizes.float_bytes);
    return sizes.int_bytes;
  };
  kernels.decode_plan = Reserve(make(choice_.decode, kernels.decode));
  std::size_t prefill_bytes = make(choice_.prefill, kernels.prefill);
  if (choice_.prefill == AttentionKernel::kFa3) {
    prefill_bytes = std::max(prefill_bytes, make(AttentionKernel::kFa2, kernels.short_prefill));
  }
  kernels.prefill_plan = Reserve(prefill_bytes);
  windows_.push_back(std::move(kernels));
}

Section PagedAttention::State::Reserve(std::size_t bytes) {
  const Section section{.begin = int_bytes_, .bytes = bytes};
  int_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return section;
}

PlannedAttention* PagedAttention::State::Prefill(const WindowKernels& kernels) const {
  if (split_.prefill_kernel == AttentionKernel::kGeneric) return nullptr;
  const bool shorter = split_.prefill_kernel != choice_.prefill;
  return shorter ? kernels.short_prefill.get() : kernels.prefill.get();
}

void PagedAttention::State::Plan(StreamView stream, const AttentionWork& work) {
  CHECK(work.rows <= limits_.rows && work.sequences <= limits_.sequences);
  split_ = SplitAttention(work, choice_);
  if (int_bytes_ == 0) return;
  Staging& staging = *staging_[turn_];
  turn_ = (turn_ + 1) % kPlansInFlight;
  if (staging.used) staging.sent.Await("the copy of the attention plan of an earlier step");
  // Set even if planning fails half-way: copies from the buffer may still be in flight.
  staging.used = true;
  std::exception_ptr failure;
  try {
    for (const WindowKernels& kernels : windows_) {
      PlanPart(stream, kernels.decode.get(), split_.decodes, kernels.decode_plan, staging);
      PlanPart(stream, Prefill(kernels), split_.prefills, kernels.prefill_plan, staging);
    }
  } catch (...) {
    failure = std::current_exception();
  }
  staging.sent.Record(stream);
  if (failure != nullptr) std::rethrow_exception(failure);
}

void PagedAttention::State::PlanPart(StreamView stream, PlannedAttention* kernel,
                                     const AttentionPart& part, const Section& section,
                                     const Staging& staging) {
  if (kernel == nullptr || part.sequences == 0) return;
  AsDeviceError("planning attention", [&] {
    kernel->Plan(stream, part,
                 {.floats = floats_->data(),
                  .ints = ints_->data() + section.begin,
                  .pinned = staging.memory.data() + section.begin,
                  .float_bytes = float_bytes_,
                  .int_bytes = section.bytes});
  });
}

void PagedAttention::State::Run(StreamView stream, const AttentionCall& call, std::int64_t window) {
  const auto kernels =
      std::find_if(windows_.begin(), windows_.end(),
                   [&](const WindowKernels& each) { return each.window == window; });
  CHECK(kernels != windows_.end());
  const bool decodes_alone = split_.decode_kernel != AttentionKernel::kGeneric;
  RunPart(stream, decodes_alone ? kernels->decode.get() : nullptr, split_.decodes, call, window);
  RunPart(stream, Prefill(*kernels), split_.prefills, call, window);
}

void PagedAttention::State::RunPart(StreamView stream, const PlannedAttention* kernel,
                                    const AttentionPart& part, const AttentionCall& call,
                                    std::int64_t window) {
  if (part.sequences == 0 || part.rows == 0) return;
  if (kernel != nullptr) {
    AsDeviceError("attention", [&] { kernel->Run(stream, call); });
    return;
  }
  CHECK(part.first_row == 0);
  GenericAttention(stream, call.q, part.device, part.sequences, part.rows, shape_, call.cache,
                   call.layer, window, call.out);
}

PagedAttention::PagedAttention(const AttentionShape& shape, const AttentionChoice& choice,
                               std::int64_t rows_max, std::int64_t sequences_max)
    : state_(std::make_unique<State>(shape, choice, rows_max, sequences_max)) {}
PagedAttention::~PagedAttention() = default;

void PagedAttention::Plan(StreamView stream, const AttentionWork& work) {
  state_->Plan(stream, work);
}

void PagedAttention::Run(StreamView stream, DeviceMatrix q, const KvCacheView& cache,
                         std::int64_t layer, std::int64_t window, DeviceMatrix out) {
  state_->Run(stream, {.q = q, .cache = cache, .layer = layer, .out = out}, window);
}

std::int64_t PagedAttention::device_bytes() const { return state_->device_bytes(); }

}  // namespace twin::kernels::cuda
