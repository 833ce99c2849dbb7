// Tests on the machine's own GPU; 77 and one line where there is none.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdio>

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  // A fork of a process that has used the device cannot use it.
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  testing::InitGoogleTest(&argc, argv);
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (!testing::GTEST_FLAG(list_tests) && (error != cudaSuccess || devices == 0)) {
    std::printf("skipped: no GPU (%s)\n", cudaGetErrorString(error));
    return kSkipped;
  }
  return RUN_ALL_TESTS();
}
