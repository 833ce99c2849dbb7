#define TWIN_LANES 16
#include "kernels/vector/kernel_table.h"

namespace twin::kernels {

constinit const VectorKernels kAvx512Kernels = kTable;

}  // namespace twin::kernels
