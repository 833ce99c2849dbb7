// Matrices in buffers that grow.
#pragma once

#include <cstdint>

#include "kernels/aligned_buffer.h"
#include "kernels/matrix_view.h"

namespace twin::exec {

// A dense matrix in the buffer, whose earlier content is lost.
inline kernels::MatrixView<float> Sized(kernels::AlignedBuffer& buffer, std::int64_t rows,
                                        std::int64_t columns) {
  return kernels::DenseMatrix(buffer.Reserve<float>(rows * columns), rows, columns);
}

}  // namespace twin::exec
