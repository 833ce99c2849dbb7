#include "kernels/cuda/embedding.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/vector_io.cuh"

namespace twin::kernels::cuda {
namespace {

constexpr int kThreads = 256;

template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    EmbedKernel(DeviceRows<const Bf16> table, std::int64_t table_rows, EmbeddingLookup lookup,
                DeviceRows<Bf16> y, std::int64_t rows, std::int64_t columns) {
  WaitForEarlierKernels();
  const std::int64_t column = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kWidth;
  if (column >= columns) return;
  for (std::int64_t t = blockIdx.y; t < rows; t += gridDim.y) {
    const std::int32_t id = lookup.token_ids[t];
    const std::int64_t token = id < 0 ? lookup.carried[-1 - id] : id;
    const std::int64_t row = token - lookup.first_token;
    float values[kWidth] = {};
    if (row >= 0 && row < table_rows) {
      LoadFloats<kWidth>(table.Row(row) + column, values);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) values[i] *= lookup.scale;
    }
    StoreRounded<kWidth>(values, y.Row(t) + column);
  }
}

template <class Table, int kWidth>
__global__ void __launch_bounds__(kThreads)
    AddPositionKernel(DeviceRows<const Table> table, const std::int32_t* positions,
                      std::int32_t offset, DeviceRows<Bf16> y, std::int64_t rows,
                      std::int64_t columns) {
  WaitForEarlierKernels();
  const std::int64_t column = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kWidth;
  if (column >= columns) return;
  for (std::int64_t t = blockIdx.y; t < rows; t += gridDim.y) {
    float added[kWidth];
    LoadFloats<kWidth>(table.Row(positions[t] + std::int64_t{offset}) + column, added);
    Bf16* place = y.Row(t) + column;
    float values[kWidth];
    LoadFloats<kWidth>(static_cast<const Bf16*>(place), values);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] += added[i];
    StoreRounded<kWidth>(values, place);
  }
}

// Copies in elements of type Unit; strides and columns are in units.
template <class Unit>
__global__ void __launch_bounds__(kThreads)
    GatherKernel(DeviceRows<const Unit> x, const std::int32_t* sources, DeviceRows<Unit> y,
                 std::int64_t rows, std::int64_t units) {
  WaitForEarlierKernels();
  const std::int64_t unit = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (unit >= units) return;
  for (std::int64_t i = blockIdx.y; i < rows; i += gridDim.y) {
    y.Row(i)[unit] = x.Row(sources[i])[unit];
  }
}

template <class Unit>
void Gather(StreamView stream, const DeviceMatrix& x, const std::int32_t* rows,
            const DeviceMatrix& y) {
  const std::int64_t bytes = ByteSize(x.dtype);
  const auto size = static_cast<std::int64_t>(sizeof(Unit));
  const std::int64_t units = x.columns * bytes / size;
  const DeviceRows<const Unit> from{x.As<const Unit>(), x.stride * bytes / size};
  const DeviceRows<Unit> to{y.As<Unit>(), y.stride * bytes / size};
  Launch(stream, RowGrid(y.rows, units, kThreads), "GatherRows", &GatherKernel<Unit>, from, rows,
         to, y.rows, units);
}

bool IsEmpty(const DeviceMatrix& matrix) { return matrix.rows == 0 || matrix.columns == 0; }

template <class Table>
void AddPositions(StreamView stream, const DeviceMatrix& table, const std::int32_t* positions,
                  std::int32_t offset, const DeviceMatrix& y) {
  constexpr int kWidth = kPackWidth<Bf16>;
  if (IsPacked(table) && IsPacked(y)) {
    Launch(stream, RowGrid(y.rows, y.columns / kWidth, kThreads), "AddPositionRows",
           &AddPositionKernel<Table, kWidth>, RowsOf<const Table>(table), positions, offset,
           RowsOf<Bf16>(y), y.rows, y.columns);
  } else {
    Launch(stream, RowGrid(y.rows, y.columns, kThreads), "AddPositionRows",
           &AddPositionKernel<Table, 1>, RowsOf<const Table>(table), positions, offset,
           RowsOf<Bf16>(y), y.rows, y.columns);
  }
}

}  // namespace

void EmbedTokens(StreamView stream, DeviceMatrix table, const EmbeddingLookup& lookup,
                 DeviceMatrix y) {
  CHECK(table.dtype == y.dtype && table.columns == y.columns);
  if (IsEmpty(y)) return;
  CHECK(y.dtype == DType::kBf16);
  constexpr int kWidth = kPackWidth<Bf16>;
  if (IsPacked(table) && IsPacked(y)) {
    Launch(stream, RowGrid(y.rows, y.columns / kWidth, kThreads), "EmbedTokens",
           &EmbedKernel<kWidth>, RowsOf<const Bf16>(table), table.rows, lookup, RowsOf<Bf16>(y),
           y.rows, y.columns);
  } else {
    Launch(stream, RowGrid(y.rows, y.columns, kThreads), "EmbedTokens", &EmbedKernel<1>,
           RowsOf<const Bf16>(table), table.rows, lookup, RowsOf<Bf16>(y), y.rows, y.columns);
  }
}

void AddPositionRows(StreamView stream, DeviceMatrix table, const std::int32_t* positions,
                     std::int32_t offset, DeviceMatrix y) {
  CHECK(table.columns == y.columns);
  CHECK(table.dtype == y.dtype || table.dtype == DType::kFp32);
  if (IsEmpty(y)) return;
  CHECK(y.dtype == DType::kBf16);
  if (table.dtype == DType::kFp32) {
    AddPositions<float>(stream, table, positions, offset, y);
  } else {
    AddPositions<Bf16>(stream, table, positions, offset, y);
  }
}

void GatherRows(StreamView stream, DeviceMatrix x, const std::int32_t* rows, DeviceMatrix y) {
  CHECK(x.dtype == y.dtype && x.columns == y.columns);
  if (IsEmpty(y)) return;
  if (IsPacked(x) && IsPacked(y)) return Gather<uint4>(stream, x, rows, y);
  switch (ByteSize(x.dtype)) {
    case 4:
      return Gather<std::uint32_t>(stream, x, rows, y);
    case 2:
      return Gather<std::uint16_t>(stream, x, rows, y);
    default:
      return Gather<std::uint8_t>(stream, x, rows, y);
  }
}

}  // namespace twin::kernels::cuda
