# Sources of the kernels: read here for nvcc, and by tests/cuda_emulation for the C++ compiler.
include("${CMAKE_CURRENT_LIST_DIR}/libraries.cmake")
set(TWIN_CUDA_KERNEL_SOURCES  # device code
  activation.cu
  attention_generic.cu
  block_copy.cu
  elementwise.cu
  embedding.cu
  expert_gemm.cu
  gemv.cu
  norm.cu
  quantize.cu
  random_fill.cu
  rope_append.cu
  routing.cu
  sampling.cu
  top_logits.cu
  widening_gemm.cu)
set(TWIN_CUDA_HOST_SOURCES    # compiled by the C++ compiler everywhere
  device_memory.cc
  event.cc
  int4_rows.cc
  kernel_overlap.cc
  stream.cc
  ${twin_cuda_library_sources})
