# Tests of what the device's kernels need of libraries. The device tests run on the emulated device
# here, and on a real one with the sources of twin_cuda_library_device_tests.
foreach(test attention_split cuda_library decode_times gemm_algorithms)
  twin_test(${test}_test.cc DEPENDS cuda_emulation)
endforeach()
foreach(test cuda_attention cuda_gemm cuda_scaled_gemm emulated_gemm)
  twin_test(${test}_test.cc DEPENDS cuda_emulation)
  target_sources(${test}_test PRIVATE test_libraries_emulated.cc)
endforeach()
target_sources(cuda_attention_test PRIVATE attention_case.cc)
target_sources(cuda_scaled_gemm_test PRIVATE test_rows.cc)

# FlashInfer's planner of work works without a device.
if(TWIN_HAS_FLASHINFER)
  add_executable(flashinfer_plan_test flashinfer_plan_test.cu)
  target_compile_options(flashinfer_plan_test PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
  target_link_libraries(flashinfer_plan_test PRIVATE
    twin_options twin_flashinfer twin::kernels_cuda GTest::gmock GTest::gtest_main)
  gtest_discover_tests(flashinfer_plan_test DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS unit TIMEOUT 300)
endif()

set(twin_cuda_library_device_tests
  attention_case.cc
  cuda_attention_test.cc
  cuda_gemm_test.cc
  cuda_scaled_gemm_test.cc
  test_libraries_device.cc)
