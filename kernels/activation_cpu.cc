#include "core/check.h"
#include "kernels/activation.h"
#include "kernels/row_ranges.h"
#include "kernels/vector/vector_kernels.h"

namespace twin::kernels {

void Activate(ThreadPool& pool, Activation activation, MatrixView<float> x) {
  const VectorKernels& kernels = KernelsFor(pool.instruction_set());
  ForEachRow(pool, x.rows, x.columns, [&](std::int64_t t) {
    kernels.activate(activation, x.Row(t), nullptr, x.columns, x.Row(t));
  });
}

void ActivateGated(ThreadPool& pool, Activation activation, MatrixView<const float> gate,
                   MatrixView<const float> up, MatrixView<float> y) {
  CHECK(gate.rows == y.rows && up.rows == y.rows);
  CHECK(gate.columns == y.columns && up.columns == y.columns);
  const VectorKernels& kernels = KernelsFor(pool.instruction_set());
  ForEachRow(pool, y.rows, y.columns, [&](std::int64_t t) {
    kernels.activate(activation, gate.Row(t), up.Row(t), y.columns, y.Row(t));
  });
}

void ActivateClamped(ThreadPool& pool, float limit, MatrixView<const float> gate,
                     MatrixView<const float> up, MatrixView<float> y) {
  CHECK(limit > 0 && gate.rows == y.rows && up.rows == y.rows);
  CHECK(gate.columns == y.columns && up.columns == y.columns);
  const VectorKernels& kernels = KernelsFor(pool.instruction_set());
  ForEachRow(pool, y.rows, y.columns, [&](std::int64_t t) {
    kernels.clamped_gate(limit, gate.Row(t), up.Row(t), y.columns, y.Row(t));
  });
}

}  // namespace twin::kernels
