#include "kernels/cuda/attention.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <exception>
#include <map>
#include <set>
#include <utility>

#include "core/check.h"
#include "kernels/cuda/attention_generic.h"
#include "kernels/cuda/attention_split.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/flashinfer/planned_attention.h"

namespace twin::kernels::cuda {
namespace {

constexpr std::size_t kAlignment = 16;  // of the plan of a part

// The kernels for one window size; null if the generic kernel is used.
struct WindowKernels {
  std::int64_t window = 0;
  std::map<AttentionKernel, std::unique_ptr<PlannedAttention>> decode;
  std::unique_ptr<PlannedAttention> prefill;
  std::unique_ptr<PlannedAttention> short_prefill;  // kFa2, if `prefill` is kFa3
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

// The kernels that decodes may use.
std::set<AttentionKernel> DecodeKernels(const AttentionChoice& choice) {
  std::set<AttentionKernel> kernels = {choice.decode};
  for (const MeasuredDecodes& each : choice.measured) kernels.insert(each.way.kernel);
  return kernels;
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

  void Plan(const AttentionWork& work);
  void Run(StreamView stream, const AttentionCall& call, std::int64_t window);
  [[nodiscard]] bool ReadsKeysOfRows() const { return split_.prefills.fresh; }
  [[nodiscard]] const AttentionShape& shape() const { return shape_; }
  [[nodiscard]] std::size_t PlanBytes(const AttentionWork& work) const;
  [[nodiscard]] std::size_t PlanBytesMax() const;
  [[nodiscard]] std::int64_t device_bytes() const {
    return static_cast<std::int64_t>(float_bytes_);
  }

 private:
  void AddWindow(std::int64_t window);
  // Room for the plan of a part for one window.
  [[nodiscard]] std::size_t PartBytes(AttentionKernel kernel, std::int64_t sequences,
                                      std::int64_t rows) const;
  [[nodiscard]] PlannedAttention* Decode(const WindowKernels& kernels) const;
  [[nodiscard]] PlannedAttention* Prefill(const WindowKernels& kernels) const;
  void PlanPart(PlannedAttention* kernel, const AttentionPart& part, const PlanMemory& memory);
  void RunPart(StreamView stream, const PlannedAttention* kernel, const AttentionPart& part,
               const AttentionCall& call, std::int64_t window);

  AttentionShape shape_;
  AttentionChoice choice_;
  PlanLimits limits_;
  std::vector<WindowKernels> windows_;
  std::size_t float_bytes_ = 0;
  std::unique_ptr<DeviceBuffer> floats_;
  AttentionSplit split_;
};

PagedAttention::State::State(const AttentionShape& shape, const AttentionChoice& choice,
                             std::int64_t rows_max, std::int64_t sequences_max)
    : shape_(shape),
      choice_(choice),
      limits_{.rows = rows_max, .sequences = sequences_max, .multiprocessors = Multiprocessors()} {
  for (const std::int64_t window : DistinctWindows(shape)) AddWindow(window);
  floats_ = std::make_unique<DeviceBuffer>(float_bytes_, "the attention workspace");
}

void PagedAttention::State::AddWindow(std::int64_t window) {
  WindowKernels kernels;
  kernels.window = window;
  const auto make = [&](AttentionKernel kernel, std::unique_ptr<PlannedAttention>& place) {
    if (kernel == AttentionKernel::kGeneric) return;
    AsDeviceError("making attention",
                  [&] { place = MakePlannedAttention(kernel, shape_, window); });
    // All kernels share the float workspace, because they run in stream order.
    float_bytes_ = std::max(float_bytes_, SizesOfPlan(kernel, shape_, limits_).float_bytes);
  };
  for (const AttentionKernel kernel : DecodeKernels(choice_)) make(kernel, kernels.decode[kernel]);
  make(choice_.prefill, kernels.prefill);
  if (choice_.prefill == AttentionKernel::kFa3) make(AttentionKernel::kFa2, kernels.short_prefill);
  windows_.push_back(std::move(kernels));
}

std::size_t PagedAttention::State::PartBytes(AttentionKernel kernel, std::int64_t sequences,
                                             std::int64_t rows) const {
  if (kernel == AttentionKernel::kGeneric || sequences == 0) return 0;
  const PlanLimits limits{
      .rows = rows, .sequences = sequences, .multiprocessors = limits_.multiprocessors};
  const std::size_t bytes = SizesOfPlan(kernel, shape_, limits).int_bytes;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t PagedAttention::State::PlanBytes(const AttentionWork& work) const {
  CHECK(work.rows <= limits_.rows && work.sequences <= limits_.sequences);
  const AttentionKernels kernels = KernelsFor(work, choice_);
  const std::int64_t prefills = work.sequences - work.decodes;
  return windows_.size() * (PartBytes(kernels.decode, work.decodes, work.decodes) +
                            PartBytes(kernels.prefill, prefills, work.rows - work.decodes));
}

std::size_t PagedAttention::State::PlanBytesMax() const {
  const auto largest = [&](AttentionKernel kernel) {
    return PartBytes(kernel, limits_.sequences, limits_.rows);
  };
  std::size_t prefills = largest(choice_.prefill);
  if (choice_.prefill == AttentionKernel::kFa3) {
    prefills = std::max(prefills, largest(AttentionKernel::kFa2));
  }
  std::size_t decodes = 0;
  for (const AttentionKernel kernel : DecodeKernels(choice_)) {
    decodes = std::max(decodes, largest(kernel));
  }
  return windows_.size() * (decodes + prefills);
}

PlannedAttention* PagedAttention::State::Decode(const WindowKernels& kernels) const {
  const auto found = kernels.decode.find(split_.decode_kernel);
  return found == kernels.decode.end() ? nullptr : found->second.get();
}

PlannedAttention* PagedAttention::State::Prefill(const WindowKernels& kernels) const {
  if (split_.prefill_kernel == AttentionKernel::kGeneric) return nullptr;
  const bool shorter = split_.prefill_kernel != choice_.prefill;
  return shorter ? kernels.short_prefill.get() : kernels.prefill.get();
}

void PagedAttention::State::Plan(const AttentionWork& work) {
  CHECK(work.rows <= limits_.rows && work.sequences <= limits_.sequences);
  split_ = SplitAttention(work, choice_);
  std::size_t planned = 0;
  const auto plan = [&](PlannedAttention* kernel, AttentionKernel kind, const AttentionPart& part) {
    const std::size_t bytes = PartBytes(kind, part.sequences, part.rows);
    if (bytes == 0) return;
    PlanPart(kernel, part,
             {.floats = floats_->data(),
              .ints = work.device_plan + planned,
              .host = work.host_plan + planned,
              .float_bytes = float_bytes_,
              .int_bytes = bytes});
    planned += bytes;
  };
  for (const WindowKernels& kernels : windows_) {
    plan(Decode(kernels), split_.decode_kernel, split_.decodes);
    plan(Prefill(kernels), split_.prefill_kernel, split_.prefills);
  }
}

void PagedAttention::State::PlanPart(PlannedAttention* kernel, const AttentionPart& part,
                                     const PlanMemory& memory) {
  CHECK(kernel != nullptr && memory.host != nullptr && memory.ints != nullptr);
  AsDeviceError("planning attention", [&] { kernel->Plan(part, memory); });
}

void PagedAttention::State::Run(StreamView stream, const AttentionCall& call, std::int64_t window) {
  const auto kernels =
      std::find_if(windows_.begin(), windows_.end(),
                   [&](const WindowKernels& each) { return each.window == window; });
  CHECK(kernels != windows_.end());
  RunPart(stream, Decode(*kernels), split_.decodes, call, window);
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

std::int64_t PagedAttention::PlanBytes(const AttentionWork& work) const {
  return static_cast<std::int64_t>(state_->PlanBytes(work));
}
std::int64_t PagedAttention::PlanBytesMax() const {
  return static_cast<std::int64_t>(state_->PlanBytesMax());
}
void PagedAttention::Plan(const AttentionWork& work) { state_->Plan(work); }

bool PagedAttention::ReadsKeysOfRows() const { return state_->ReadsKeysOfRows(); }

void PagedAttention::Run(StreamView stream, DeviceMatrix qkv, const KvCacheView& cache,
                         std::int64_t layer, std::int64_t window, DeviceMatrix out) {
  const AttentionShape& shape = state_->shape();
  const std::int64_t queries = shape.heads * shape.head_dim;
  const std::int64_t keys = shape.kv_heads * shape.head_dim;
  CHECK(qkv.columns == queries + 2 * keys);
  state_->Run(stream,
              {.q = qkv.Columns(0, queries),
               .k = qkv.Columns(queries, keys),
               .v = qkv.Columns(queries + keys, keys),
               .cache = cache,
               .layer = layer,
               .out = out},
              window);
}

std::int64_t PagedAttention::device_bytes() const { return state_->device_bytes(); }

}  // namespace twin::kernels::cuda
