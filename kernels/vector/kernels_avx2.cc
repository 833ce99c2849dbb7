#define TWIN_LANES 8
#include "kernels/vector/kernel_table.h"

namespace twin::kernels {

constinit const VectorKernels kAvx2Kernels = kTable;

}  // namespace twin::kernels
