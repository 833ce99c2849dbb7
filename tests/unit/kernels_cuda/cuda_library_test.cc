#include "kernels/cuda/cuda_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace twin::kernels::cuda {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;

// Two folders in $TWIN_CUDA_LIBRARIES, the second with a library that is libm.
class CudaLibraryTest : public testing::Test {
 protected:
  CudaLibraryTest() {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    root_ = fs::path(testing::TempDir()) / ("cuda_library_test_" + name);
    fs::remove_all(root_);
    fs::create_directories(root_ / "first");
    fs::create_directories(root_ / "second");
    const std::string folders = (root_ / "first").string() + ":" + (root_ / "absent").string() +
                                "::" + (root_ / "second").string();
    setenv("TWIN_CUDA_LIBRARIES", folders.c_str(), 1);
  }
  ~CudaLibraryTest() override { unsetenv("TWIN_CUDA_LIBRARIES"); }

  fs::path root_;
};

TEST_F(CudaLibraryTest, ListedFoldersThatExistComeFirstAndInTheirOrder) {
  const std::vector<fs::path> folders = CudaLibraryFolders();
  ASSERT_GE(folders.size(), 2);
  EXPECT_EQ(folders[0], root_ / "first");
  EXPECT_EQ(folders[1], root_ / "second");
}

TEST_F(CudaLibraryTest, PackagesOfThePythonInThePathAreSearched) {
  const fs::path lib = root_ / "lib/python3.12/site-packages/nvidia/cu13/lib";
  fs::create_directories(lib);
  fs::create_directories(root_ / "bin");
  std::ofstream(root_ / "bin/python3") << "not run";
  const std::string path = std::getenv("PATH");
  setenv("PATH", (root_ / "bin").c_str(), 1);
  const std::vector<fs::path> folders = CudaLibraryFolders();
  setenv("PATH", path.c_str(), 1);
  EXPECT_THAT(folders, testing::Contains(lib));
}

TEST_F(CudaLibraryTest, OpensAFileOfAListedFolderAndFindsItsFunctions) {
  fs::path libm;
  for (const char* const folder : {"/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib"}) {
    if (libm.empty() && fs::exists(fs::path(folder) / "libm.so.6")) {
      libm = fs::path(folder) / "libm.so.6";
    }
  }
  if (libm.empty()) GTEST_SKIP() << "libm.so.6 is in none of the usual folders";
  fs::create_symlink(libm, root_ / "second/libtwin_test.so");
  const CudaLibrary library("libtwin_test.so");
  ASSERT_TRUE(library.open()) << library.why();
  // Its own name, whatever links lead to it.
  EXPECT_TRUE(fs::equivalent(library.path(), root_ / "second/libtwin_test.so")) << library.path();
  EXPECT_EQ(library.why(), "");
  auto* const root = library.Find<double(double)>("sqrt");
  ASSERT_NE(root, nullptr);
  EXPECT_EQ(root(9), 3);
  EXPECT_EQ(library.Find<void()>("no_such_function"), nullptr);
}

TEST_F(CudaLibraryTest, OneThatIsNowhereSaysSoByName) {
  const CudaLibrary library("libnowhere_at_all.so.1");
  EXPECT_FALSE(library.open());
  EXPECT_THAT(library.why(), HasSubstr("libnowhere_at_all.so.1"));
  EXPECT_EQ(library.Find<void()>("sqrt"), nullptr);
}

}  // namespace
}  // namespace twin::kernels::cuda
