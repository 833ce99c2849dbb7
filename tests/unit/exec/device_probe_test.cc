#include "exec/device_probe.h"

#include <gtest/gtest.h>

#include "exec/shared_library.h"

namespace twin::exec {
namespace {

TEST(DeviceProbeTest, GivesEitherADeviceOrAReason) {
  const CudaStatus cuda = ProbeCuda();
  EXPECT_EQ(cuda.usable(), cuda.reason.empty());
  for (const CudaDevice& device : cuda.devices) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_GE(device.compute_major, 1);
    EXPECT_GE(device.multiprocessors, 1);
    EXPECT_GT(device.total_bytes, 0);
  }
}

TEST(DeviceProbeTest, GivesEitherAVersionOrAReasonForEachLibrary) {
  const DeviceProbe probe = ProbeDevices();
  for (const LibraryStatus* status : {&probe.nccl, &probe.mpi}) {
    EXPECT_NE(status->version.empty(), status->reason.empty());
    EXPECT_EQ(status->usable(), !status->version.empty());
  }
}

TEST(DeviceProbeTest, WritesCudaVersionsAsPeopleDo) {
  EXPECT_EQ(CudaVersionText(13000), "13.0");
  EXPECT_EQ(CudaVersionText(12080), "12.8");
}

TEST(SharedLibraryTest, FindsFunctionsOfALibraryThatIsThere) {
  const SharedLibrary math("libm.so.6");
  ASSERT_TRUE(math.open()) << math.why();
  auto* const square_root = math.Find<double(double)>("sqrt");
  ASSERT_NE(square_root, nullptr);
  EXPECT_EQ(square_root(9.0), 3.0);
  EXPECT_EQ(math.Find<void()>("there_is_no_such_function"), nullptr);
}

TEST(SharedLibraryTest, SaysWhyALibraryCannotBeOpened) {
  const SharedLibrary missing("libthere_is_no_such_library.so.7");
  EXPECT_FALSE(missing.open());
  EXPECT_NE(missing.why().find("libthere_is_no_such_library.so.7"), std::string::npos);
  EXPECT_EQ(missing.Find<void()>("f"), nullptr);
}

}  // namespace
}  // namespace twin::exec
