#define TWIN_LANES 4
#include "kernels/vector/kernel_table.h"

namespace twin::kernels {

constinit const VectorKernels kPortableKernels = kTable;

}  // namespace twin::kernels
