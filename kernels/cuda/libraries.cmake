# Sources over libraries: plain C++, compiled with the toolkit's headers for the device and for the
# emulated one. A build with FlashInfer replaces flashinfer/no_flashinfer.cc.
set(twin_cuda_library_sources
  attention.cc
  attention_choice.cc
  attention_split.cc
  cublaslt_library.cc
  cublaslt_product.cc
  cuda_library.cc
  decode_times.cc
  flashinfer/no_flashinfer.cc
  flashinfer/plan_sizes.cc
  gemm.cc
  gemm_algorithms.cc
  gemm_tuning.cc)
