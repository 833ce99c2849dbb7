#include "exec/cuda/activations.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "exec/cuda/device_weights.h"
#include "kernels/cuda/gemm.h"

namespace twin::exec::cuda {

using kernels::cuda::DeviceMatrix;

namespace {

constexpr DType kFormat = kActivationFormat;

// Rows of 16-bit formats have room for the padded columns that fp8 products write.
std::int64_t StrideOf(std::int64_t columns, DType dtype) {
  static_assert(AlignedStride(1, DType::kFp8) == kernels::cuda::kFp8Sizes);
  return AlignedStride(columns, dtype == DType::kFp32 ? dtype : DType::kFp8);
}

}  // namespace

Activations::Layout Activations::LayoutOf(std::int64_t rows, std::int64_t logit_rows) const {
  constexpr std::int64_t kAlignment = 256;
  Layout layout;
  const auto take = [&](Place place, DType type, std::int64_t count, std::int64_t columns) {
    layout.first[place] = layout.bytes;
    layout.rows[place] = count;
    const std::int64_t bytes = count * StrideOf(columns, type) * ByteSize(type);
    layout.bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  };
  take(kResidual, kFormat, rows, widths_.hidden);
  take(kNormed, kFormat, rows, widths_.hidden);
  take(kQkv, kFormat, rows, widths_.qkv);
  take(kAttended, kFormat, rows, widths_.queries);
  take(kInner, kFormat, rows, widths_.inner);
  take(kActivated, kFormat, rows, widths_.activated);
  take(kNarrow, kFormat, rows, widths_.embedding);
  take(kLogits, DType::kFp32, logit_rows, widths_.logits);
  take(kOwnLogits, DType::kFp32, logit_rows, widths_.own_logits);
  take(kGathered, DType::kFp32, logit_rows * widths_.ranks, widths_.own_logits);
  take(kQuantized, DType::kFp8, rows, widths_.quantized);
  take(kScales, DType::kFp32, widths_.quantized > 0 ? 1 : 0, rows);
  const MixtureWidths& mixture = widths_.mixture;
  if (mixture.experts == 0) return layout;
  const kernels::cuda::RoutingShape routing = RoutingOf(rows);
  take(kRouterLogits, DType::kFp32, rows, mixture.experts);
  take(kRouting, DType::kInt8, 1, kernels::cuda::RoutingBytes(routing));
  take(kExpertInner, kFormat, routing.pairs(), mixture.inner);
  take(kExpertActivated, kFormat, routing.pairs(), mixture.activated);
  take(kExpertOutputs, kFormat, routing.pairs(), widths_.hidden);
  take(kSharedOutput, kFormat, widths_.inner > 0 ? rows : 0, widths_.hidden);
  return layout;
}

std::int64_t Activations::BytesOf(std::int64_t rows, std::int64_t logit_rows) const {
  return LayoutOf(rows, logit_rows).bytes;
}

bool Activations::Reserve(std::int64_t rows, std::int64_t logit_rows) {
  if (Holds(rows, logit_rows)) return false;
  rows = std::max(rows, rows_);
  logit_rows = std::max(logit_rows, logit_rows_);
  const Layout layout = LayoutOf(rows, logit_rows);
  buffer_ = DeviceBuffer();  // freed first: both may not fit
  rows_ = logit_rows_ = 0;
  buffer_ = DeviceBuffer(layout.bytes, "device memory for activations");
  layout_ = layout;
  rows_ = rows;
  logit_rows_ = logit_rows;
  return true;
}

DeviceMatrix Activations::At(Place place, DType dtype, std::int64_t rows,
                             std::int64_t columns) const {
  CHECK(rows <= layout_.rows[place]);
  return {buffer_.data() + layout_.first[place], dtype, rows, columns, StrideOf(columns, dtype)};
}

DeviceMatrix Activations::residual(std::int64_t rows) const {
  return At(kResidual, kFormat, rows, widths_.hidden);
}
DeviceMatrix Activations::normed(std::int64_t rows) const {
  return At(kNormed, kFormat, rows, widths_.hidden);
}
DeviceMatrix Activations::qkv(std::int64_t rows) const {
  return At(kQkv, kFormat, rows, widths_.qkv);
}
DeviceMatrix Activations::attended(std::int64_t rows) const {
  return At(kAttended, kFormat, rows, widths_.queries);
}
DeviceMatrix Activations::inner(std::int64_t rows) const {
  return At(kInner, kFormat, rows, widths_.inner);
}
DeviceMatrix Activations::activated(std::int64_t rows) const {
  return At(kActivated, kFormat, rows, widths_.activated);
}
DeviceMatrix Activations::narrow(std::int64_t rows) const {
  return At(kNarrow, kFormat, rows, widths_.embedding);
}
DeviceMatrix Activations::logits(std::int64_t rows) const {
  return At(kLogits, DType::kFp32, rows, widths_.logits);
}
DeviceMatrix Activations::own_logits(std::int64_t rows) const {
  return At(kOwnLogits, DType::kFp32, rows, widths_.own_logits);
}
kernels::cuda::ScaledMatrix Activations::quantized(std::int64_t rows, std::int64_t columns) const {
  CHECK(rows <= rows_ && columns <= StrideOf(widths_.quantized, DType::kFp8));
  return {At(kQuantized, DType::kFp8, rows, columns),
          At(kScales, DType::kFp32, 1, rows).As<float>()};
}
kernels::cuda::RoutingShape Activations::RoutingOf(std::int64_t rows) const {
  return {rows, widths_.mixture.experts, widths_.mixture.experts_per_row};
}
DeviceMatrix Activations::router_logits(std::int64_t rows) const {
  return At(kRouterLogits, DType::kFp32, rows, widths_.mixture.experts);
}
kernels::cuda::RoutedPairs Activations::routed(std::int64_t rows) const {
  CHECK(rows <= rows_);
  return kernels::cuda::RoutedPairsAt(buffer_.data() + layout_.first[kRouting], RoutingOf(rows));
}
DeviceMatrix Activations::expert_inner(std::int64_t rows) const {
  return At(kExpertInner, kFormat, RoutingOf(rows).pairs(), widths_.mixture.inner);
}
DeviceMatrix Activations::expert_activated(std::int64_t rows) const {
  return At(kExpertActivated, kFormat, RoutingOf(rows).pairs(), widths_.mixture.activated);
}
DeviceMatrix Activations::expert_outputs(std::int64_t rows) const {
  return At(kExpertOutputs, kFormat, RoutingOf(rows).pairs(), widths_.hidden);
}
DeviceMatrix Activations::shared_output(std::int64_t rows) const {
  return At(kSharedOutput, kFormat, rows, widths_.hidden);
}
float* Activations::gathered_logits() const {
  return At(kGathered, DType::kFp32, logit_rows_, widths_.own_logits).As<float>();
}

}  // namespace twin::exec::cuda
