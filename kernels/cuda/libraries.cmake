# Sources over libraries that are opened at run time: plain C++, compiled with the toolkit's headers
# for the device and for the emulated one.
set(twin_cuda_library_sources
  cublaslt_library.cc
  cublaslt_product.cc
  cuda_library.cc
  gemm.cc
  gemm_algorithms.cc
  gemm_tuning.cc)
set(twin_cuda_library_headers
  cublaslt_library.h
  cublaslt_product.h
  cuda_library.h
  gemm.h
  gemm_algorithms.h
  gemm_tuning.h)
