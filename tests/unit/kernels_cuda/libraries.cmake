# Tests of what the device's kernels need of libraries. cuda_gemm_test.cc and
# cuda_attention_test.cc run on a device, too, with test_libraries_device.cc.
foreach(test cuda_library gemm_algorithms)
  twin_test(${test}_test.cc DEPENDS cuda_emulation)
endforeach()
foreach(test cuda_gemm emulated_gemm)
  twin_test(${test}_test.cc DEPENDS cuda_emulation)
  target_sources(${test}_test PRIVATE test_libraries_emulated.cc)
endforeach()
set(twin_cuda_library_device_tests
  cuda_gemm_test.cc
  test_libraries_device.cc)
