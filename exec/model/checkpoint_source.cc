#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "core/input_error.h"
#include "core/printable.h"
#include "exec/model/tensor_plan.h"
#include "exec/model/tensor_source.h"

namespace twin::exec {
namespace {

constexpr std::int64_t kChunk = 4096;  // elements that are widened at a time
constexpr std::int64_t kBandFloats = std::int64_t{1}
                                     << 22;  // floats of the rows that are widened together

// Index of the first NaN or infinity in [begin, end), or -1.
std::int64_t FirstNotFinite(const StoredTensor& tensor, std::int64_t begin, std::int64_t end) {
  std::array<float, kChunk> values;
  for (std::int64_t at = begin; at < end; at += kChunk) {
    const auto chunk =
        std::span(values).first(static_cast<std::size_t>(std::min(kChunk, end - at)));
    Widen(tensor, at, chunk);
    const auto bad =
        std::find_if(chunk.begin(), chunk.end(), [](float value) { return !std::isfinite(value); });
    if (bad != chunk.end()) return at + (bad - chunk.begin());
  }
  return -1;
}

// Index of the first NaN or infinity within the stored rows and columns that a request takes, or
// -1.
std::int64_t FirstNotFinite(const StoredTensor& tensor, const MatrixRequest& request,
                            kernels::ThreadPool& pool) {
  const bool turned = request.transposed;
  const IndexRange& rows = turned ? request.taken_columns : request.taken_rows;
  const IndexRange& columns = turned ? request.taken_rows : request.taken_columns;
  const std::int64_t row_step = turned ? request.ColumnStep() : request.RowStep();
  const std::int64_t column_step = turned ? request.RowStep() : request.ColumnStep();
  const std::int64_t width = (columns.count - 1) * column_step + 1;
  // The division among threads may vary, the smallest index does not.
  std::vector<std::int64_t> found(static_cast<std::size_t>(pool.threads()), -1);
  constexpr std::int64_t kGrain = 64 * kChunk;
  const std::int64_t rows_at_once = std::max<std::int64_t>(1, kGrain / width);
  pool.ParallelFor(
      rows.count, rows_at_once, [&](std::int64_t begin, std::int64_t end, std::int32_t thread) {
        std::int64_t& first = found[static_cast<std::size_t>(thread)];
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int64_t at =
              request.First() + (rows.first + row) * row_step + columns.first * column_step;
          const std::int64_t bad = FirstNotFinite(tensor, at, at + width);
          if (bad >= 0 && (first < 0 || bad < first)) first = bad;
        }
      });
  std::int64_t first = -1;
  for (const std::int64_t bad : found) {
    if (bad >= 0 && (first < 0 || bad < first)) first = bad;
  }
  return first;
}

DType PackableType(StoredType type) {
  switch (type) {
    case StoredType::kF16:
      return DType::kFp16;
    case StoredType::kBf16:
      return DType::kBf16;
    default:
      return DType::kFp32;
  }
}

}  // namespace

const StoredTensor& CheckpointSource::Checked(const std::string& name,
                                              const std::vector<std::int64_t>& shape) const {
  const auto refuse = [&](const std::string& what) {
    throw InputError(InputError::Kind::kData, checkpoint_.path(), what);
  };
  const StoredTensor* const tensor = checkpoint_.Find(name);
  if (tensor == nullptr) refuse("the tensor '" + name + "' is missing");
  if (tensor->shape != shape) {
    refuse("tensor '" + name + "' has shape " + ShapeText(tensor->shape) +
           ", expected by config.json is " + ShapeText(shape));
  }
  if (!IsWidenable(tensor->type)) {
    refuse("tensor '" + name + "' has dtype " + std::string(Name(tensor->type)) +
           ", must be F64, F32, F16 or BF16");
  }
  return *tensor;
}

std::unique_ptr<StoredInt4> CheckpointSource::Int4(const MatrixRequest& request) const {
  if (!int4_ || !IsStoredInInt4(checkpoint_, request.name)) return nullptr;
  return std::make_unique<StoredInt4>(checkpoint_, *int4_,
                                      StoredInt4::Part{request.name, request.rows, request.columns,
                                                       request.taken_rows, request.taken_columns});
}

void CheckpointSource::Require(const MatrixRequest& request) const {
  if (Int4(request) != nullptr) return;
  (void)Checked(request.name, request.TensorShape());
}

void CheckpointSource::WarnIfNotFinite(const StoredTensor& tensor, std::int64_t first_not_finite) {
  if (first_not_finite < 0) return;
  not_finite_.push_back(
      fmt::format("{}: tensor '{}' is not finite: element {} is a NaN or an infinity",
                  checkpoint_.path(), tensor.name, first_not_finite));
}

void CheckpointSource::FillWidened(const MatrixRequest& request, const StoredInt4& stored,
                                   kernels::ThreadPool& pool, kernels::WeightSink& matrix) {
  const std::int64_t columns = request.taken_columns.count;
  const std::int64_t band = std::max<std::int64_t>(1, kBandFloats / columns);
  std::vector<float> rows;
  for (std::int64_t first = 0; first < stored.rows(); first += band) {
    const std::int64_t count = std::min(band, stored.rows() - first);
    rows.resize(static_cast<std::size_t>(count * columns));
    pool.ParallelFor(count, 1, [&](std::int64_t begin, std::int64_t end, std::int32_t) {
      for (std::int64_t i = begin; i < end; ++i) {
        stored.CopyRow(first + i, rows.data() + i * columns);
      }
    });
    matrix.Fill(pool, request.first_row + first,
                {.data = reinterpret_cast<const std::byte*>(rows.data()),
                 .rows = count,
                 .row_stride = columns});
  }
}

void CheckpointSource::Fill(const MatrixRequest& request, kernels::ThreadPool& pool,
                            kernels::WeightSink& matrix) {
  if (const auto stored = Int4(request)) {
    WarnIfNotFinite(stored->scales(),
                    FirstNotFinite(stored->scales(), 0, stored->scales().elements()));
    return FillWidened(request, *stored, pool, matrix);
  }
  const StoredTensor& tensor = Checked(request.name, request.TensorShape());
  WarnIfNotFinite(tensor, FirstNotFinite(tensor, request, pool));
  kernels::WeightSource source{.data = tensor.bytes.data(),
                               .dtype = PackableType(tensor.type),
                               .rows = request.taken_rows.count,
                               .row_stride = request.RowStep(),
                               .column_stride = request.ColumnStep()};
  std::vector<float> widened;
  if (tensor.type == StoredType::kF64) {
    widened.resize(static_cast<std::size_t>(tensor.elements()));
    Widen(tensor, 0, widened);
    source.data = reinterpret_cast<const std::byte*>(widened.data());
  }
  const std::int64_t first = request.First() + request.taken_rows.first * source.row_stride +
                             request.taken_columns.first * source.column_stride;
  source.data += first * ByteSize(source.dtype);
  matrix.Fill(pool, request.first_row, source);
}

std::vector<float> CheckpointSource::ReadVector(const VectorRequest& request, VectorKind /*kind*/) {
  const StoredTensor& tensor = Checked(request.name, request.shape);
  std::vector<float> values;
  for (const IndexRange& range : RangesOf(request)) {
    WarnIfNotFinite(tensor, FirstNotFinite(tensor, range.first, range.first + range.count));
    const std::size_t before = values.size();
    values.resize(before + static_cast<std::size_t>(range.count));
    Widen(tensor, range.first, std::span(values).subspan(before));
  }
  return values;
}

std::vector<std::string> CheckpointSource::Warnings(WeightNaming naming,
                                                    const std::vector<std::string>& names) const {
  std::vector<std::string> warnings = not_finite_;
  for (const auto& [name, tensor] : checkpoint_.tensors()) {
    if (std::binary_search(names.begin(), names.end(), name) || IsKnownBuffer(naming, name))
      continue;
    if (int4_ && StandsForWeight(name, names)) continue;
    warnings.push_back(checkpoint_.path() + ": the tensor '" + Printable(name, kMessageBytesMax) +
                       "' is unused: this model has no such part");
  }
  return warnings;
}

}  // namespace twin::exec
