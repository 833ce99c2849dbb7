#include "kernels/cuda/cudnn_attention.h"

#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/check.h"
#include "kernels/cuda/cuda_library.h"
#include "kernels/cuda/device_memory.h"

namespace cudnn_frontend {
// Handle of the cuDNN library. Users of the header-only frontend must define it.
void* cudnn_dlhandle = nullptr;
}  // namespace cudnn_frontend

namespace twin::kernels::cuda {
namespace {

namespace frontend = cudnn_frontend;
using Tensor = std::shared_ptr<frontend::graph::Tensor_attributes>;
using Sizes = std::vector<std::int64_t>;

constexpr const char* kWhat = "attention by cuDNN";

// Opens cuDNN; empty if this succeeded.
const std::string& WhyNotOpen() {
  static const std::string why = [] {
    // The frontend opens the CUDA runtime by its bare name, which finds the library opened here.
    const CudaLibrary runtime("libcudart.so." + std::to_string(CUDART_VERSION / 1000));
    if (!runtime.open()) return "cuDNN needs the CUDA runtime: " + runtime.why();
    const CudaLibrary library("libcudnn.so." + std::to_string(CUDNN_MAJOR));
    if (!library.open()) return "cuDNN: " + library.why();
    // The library is already open: this returns a handle of the same one.
    frontend::cudnn_dlhandle = dlopen(library.path().c_str(), RTLD_NOW | RTLD_GLOBAL);
    return frontend::cudnn_dlhandle != nullptr ? std::string() : "cuDNN cannot be opened again";
  }();
  return why;
}

void Check(const frontend::error_t& error) {
  if (error.is_bad()) throw DeviceError(kWhat, error.err_msg);
}

void Check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) {
    throw DeviceError(kWhat, std::string(what) + ": status " + std::to_string(status));
  }
}

class Handle {
 public:
  Handle() { Check(frontend::detail::create_handle(&handle_), "making a handle"); }
  ~Handle() { frontend::detail::destroy_handle(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  [[nodiscard]] cudnnHandle_t get() const { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

frontend::DataType_t TypeOf(DType dtype) {
  CHECK(dtype == DType::kBf16 || dtype == DType::kFp16);
  return dtype == DType::kBf16 ? frontend::DataType_t::BFLOAT16 : frontend::DataType_t::HALF;
}

}  // namespace

std::string WhyNotCudnn(const AttentionShape& shape) {
  if (shape.logit_cap > 0) return "a cap of scores is not asked of cuDNN";
  if (std::any_of(shape.windows.begin(), shape.windows.end(), [](auto w) { return w > 0; })) {
    return "windows are not asked of cuDNN";
  }
  if (shape.head_dim % 8 != 0 || shape.head_dim > 256) {
    return "cuDNN takes heads of multiples of 8 up to 256";
  }
  return WhyNotOpen();
}

class CudnnAttention::State {
 public:
  State(const AttentionShape& shape, const KvCacheShape& cache, const CudnnAttentionSizes& sizes,
        std::int64_t q_stride)
      : shape_(shape),
        cache_shape_(cache),
        sizes_(sizes),
        q_stride_(q_stride),
        out_stride_(shape.heads * shape.head_dim),
        pages_((sizes.context_max + shape.block_size - 1) / shape.block_size),
        arrays_(Place(kPlaces) * sizeof(std::int32_t), "lengths and pages for cuDNN") {
    DescribeGraph();
    Check(graph_.build(handle_.get(), {frontend::HeurMode_t::A}));
    std::int64_t bytes = 0;
    Check(graph_.get_workspace_size(bytes));
    workspace_ = std::make_unique<DeviceBuffer>(static_cast<std::size_t>(bytes),
                                                "the workspace of cuDNN's attention");
  }

  void Plan(StreamView stream, const AttentionWork& work);
  void Run(StreamView stream, const DeviceMatrix& q, const KvCacheView& cache, std::int64_t layer,
           const DeviceMatrix& out);

 private:
  enum Part : std::uint8_t { kQueries, kContexts, kQueryPlaces, kOutPlaces, kTable, kPlaces };

  [[nodiscard]] bool ragged() const { return sizes_.queries_max > 1; }
  // The first element of a part of the arrays. Parts are aligned to 16 bytes.
  [[nodiscard]] std::size_t Place(Part part) const {
    const auto room = static_cast<std::size_t>((sizes_.sequences + 1 + 3) / 4 * 4);
    if (part == kPlaces) return kTable * room + static_cast<std::size_t>(sizes_.sequences * pages_);
    return part * room;
  }
  [[nodiscard]] void* At(Part part) const {
    return arrays_.data() + Place(part) * sizeof(std::int32_t);
  }
  Tensor Describe(const char* name, Sizes sizes, Sizes strides, frontend::DataType_t type) {
    return graph_.tensor(frontend::graph::Tensor_attributes()
                             .set_name(name)
                             .set_dim(std::move(sizes))
                             .set_stride(std::move(strides))
                             .set_data_type(type));
  }
  void DescribeGraph();
  void DescribeRows(frontend::graph::SDPA_attributes& how);

  AttentionShape shape_;
  KvCacheShape cache_shape_;
  CudnnAttentionSizes sizes_;
  std::int64_t q_stride_;
  std::int64_t out_stride_;
  std::int64_t pages_;  // per sequence
  Handle handle_;
  frontend::graph::Graph graph_;
  Tensor q_, k_, v_, out_;
  std::unordered_map<Tensor, void*> pointers_;
  DeviceBuffer arrays_;
  std::unique_ptr<DeviceBuffer> workspace_;
};

void CudnnAttention::State::DescribeGraph() {
  const frontend::DataType_t type = TypeOf(shape_.dtype);
  const auto integers = frontend::DataType_t::INT32;
  const std::int64_t b = sizes_.sequences;
  const std::int64_t d = shape_.head_dim;
  graph_.set_io_data_type(type)
      .set_intermediate_data_type(frontend::DataType_t::FLOAT)
      .set_compute_data_type(frontend::DataType_t::FLOAT);
  // The pages of one layer are one KV block apart, because a block holds all layers.
  const Sizes pages = {cache_shape_.blocks, shape_.kv_heads, shape_.block_size, d};
  const Sizes page_strides = {cache_shape_.BlockBytes() / ByteSize(shape_.dtype),
                              shape_.block_size * d, d, 1};
  q_ = Describe("q", {b, shape_.heads, sizes_.queries_max, d},
                {sizes_.queries_max * q_stride_, d, q_stride_, 1}, type);
  k_ = Describe("k", pages, page_strides, type);
  v_ = Describe("v", pages, page_strides, type);
  const Tensor queries = Describe("queries", {b, 1, 1, 1}, {1, 1, 1, 1}, integers);
  const Tensor contexts = Describe("contexts", {b, 1, 1, 1}, {1, 1, 1, 1}, integers);
  const auto table = [&](const char* name) {
    const Tensor tensor = Describe(name, {b, 1, pages_, 1}, {pages_, pages_, 1, 1}, integers);
    pointers_[tensor] = At(kTable);
    return tensor;
  };
  pointers_[queries] = At(kQueries);
  pointers_[contexts] = At(kContexts);
  frontend::graph::SDPA_attributes how;
  how.set_name("attention")
      .set_attn_scale(shape_.scale)
      .set_generate_stats(false)
      .set_padding_mask(true)
      .set_seq_len_q(queries)
      .set_seq_len_kv(contexts)
      .set_paged_attention_k_table(table("key pages"))
      .set_paged_attention_v_table(table("value pages"))
      .set_paged_attention_max_seq_len_kv(static_cast<int>(sizes_.context_max));
  DescribeRows(how);
}

void CudnnAttention::State::DescribeRows(frontend::graph::SDPA_attributes& how) {
  const auto places = [&](const char* name, Part part) {
    const Tensor tensor =
        Describe(name, {sizes_.sequences + 1, 1, 1, 1}, {1, 1, 1, 1}, frontend::DataType_t::INT32);
    pointers_[tensor] = At(part);
    return tensor;
  };
  if (ragged()) {
    // The last query attends to the last key, as in chunked prefill.
    how.set_diagonal_alignment(frontend::DiagonalAlignment_t::BOTTOM_RIGHT)
        .set_diagonal_band_right_bound(0);
    q_->set_ragged_offset(places("query places", kQueryPlaces));
  }
  out_ = graph_.sdpa(q_, k_, v_, how)[0];
  out_->set_output(true)
      .set_dim({sizes_.sequences, shape_.heads, sizes_.queries_max, shape_.head_dim})
      .set_stride({sizes_.queries_max * out_stride_, shape_.head_dim, out_stride_, 1})
      .set_data_type(TypeOf(shape_.dtype));
  if (ragged()) out_->set_ragged_offset(places("result places", kOutPlaces));
}

void CudnnAttention::State::Plan(StreamView stream, const AttentionWork& work) {
  CHECK(work.sequences == sizes_.sequences);
  const AttentionArrays& host = work.host;
  CHECK(std::int64_t{host.first_query[work.sequences]} * std::max(q_stride_, out_stride_) <
        std::int64_t{1} << 31);
  std::vector<std::int32_t> all(Place(kPlaces));
  const auto set = [&](Part part, std::int64_t i, std::int64_t value) {
    all[Place(part) + static_cast<std::size_t>(i)] = static_cast<std::int32_t>(value);
  };
  for (std::int64_t s = 0; s <= work.sequences; ++s) {
    set(kQueryPlaces, s, host.first_query[s] * q_stride_);
    set(kOutPlaces, s, host.first_query[s] * out_stride_);
    if (s == work.sequences) break;
    const std::int64_t queries = host.first_query[s + 1] - host.first_query[s];
    const std::int64_t pages = host.page_begin[s + 1] - host.page_begin[s];
    CHECK(queries <= sizes_.queries_max && host.kv_lengths[s] <= sizes_.context_max && pages > 0);
    set(kQueries, s, queries);
    set(kContexts, s, host.kv_lengths[s]);
    for (std::int64_t p = 0; p < pages; ++p) {
      set(kTable, s * pages_ + p, host.page_indices[host.page_begin[s] + p]);
    }
  }
  CheckCuda(cudaMemcpyAsync(arrays_.data(), all.data(), arrays_.size(), cudaMemcpyHostToDevice,
                            stream.get()),
            "a copy of lengths and pages");
  CheckCuda(cudaStreamSynchronize(stream.get()), "a copy of lengths and pages");
}

void CudnnAttention::State::Run(StreamView stream, const DeviceMatrix& q, const KvCacheView& cache,
                                std::int64_t layer, const DeviceMatrix& out) {
  CHECK(q.stride == q_stride_ && out.stride == out_stride_ && cache.shape == cache_shape_);
  pointers_[q_] = q.data;
  pointers_[k_] = cache.Tile(0, layer, 0, 0);
  pointers_[v_] = cache.Tile(0, layer, 1, 0);
  pointers_[out_] = out.data;
  Check(frontend::detail::set_stream(handle_.get(), stream.get()), "taking a stream");
  Check(graph_.execute(handle_.get(), pointers_, workspace_->data()));
}

CudnnAttention::CudnnAttention(const AttentionShape& shape, const KvCacheShape& cache,
                               const CudnnAttentionSizes& sizes, std::int64_t q_stride) {
  CHECK(WhyNotCudnn(shape).empty() && cache.dtype == shape.dtype);
  state_ = std::make_unique<State>(shape, cache, sizes, q_stride);
}
CudnnAttention::~CudnnAttention() = default;

void CudnnAttention::Plan(StreamView stream, const AttentionWork& work) {
  state_->Plan(stream, work);
}
void CudnnAttention::Run(StreamView stream, DeviceMatrix q, const KvCacheView& cache,
                         std::int64_t layer, DeviceMatrix out) {
  state_->Run(stream, q, cache, layer, out);
}

}  // namespace twin::kernels::cuda
