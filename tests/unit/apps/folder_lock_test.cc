// Locks on folders, also where the file system has no flock().
#include "apps/study/folder_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "core/input_error.h"
#include "tests/unit/traces/trace_samples.h"

namespace {
int flock_error = 0;
}  // namespace

// In place of the system's.
extern "C" int flock(int /*descriptor*/, int /*operation*/) {
  errno = flock_error;
  return flock_error == 0 ? 0 : -1;
}

namespace twin::run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class FolderLockTest : public ::testing::Test {
 protected:
  explicit FolderLockTest(int error = ENOSYS) { flock_error = error; }
  ~FolderLockTest() override { flock_error = 0; }

  void WriteLock(const std::string& content) const { std::ofstream(file_) << content; }
  [[nodiscard]] std::string Lock() const {
    std::ifstream in(file_);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static std::string Host() {
    std::array<char, 256> name{};
    gethostname(name.data(), name.size() - 1);
    return name.data();
  }

  const ScratchDirectory scratch_{"folder_lock"};
  const std::filesystem::path folder_ = scratch_.path();
  const std::filesystem::path file_ = folder_ / ".lock";
};

TEST_F(FolderLockTest, AFileNamesTheProcessWhileItLocks) {
  {
    const FolderLock lock(folder_);
    EXPECT_EQ(Lock(), Host() + " " + std::to_string(getpid()) + "\n");
    EXPECT_THAT([&] { const FolderLock second(folder_); },
                ThrowsMessage<InputError>(
                    AllOf(HasSubstr("another process (" + Host() + " " + std::to_string(getpid())),
                          HasSubstr("as .lock says; remove the file if that process has ended) is "
                                    "running this study; wait for it, or choose another --out"))));
  }
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(FolderLockTest, AProcessOfThisHostThatHasEndedLeavesNoLock) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  WriteLock(Host() + " " + std::to_string(child) + "\n");
  const FolderLock lock(folder_);
  EXPECT_THAT(Lock(), HasSubstr(std::to_string(getpid())));
}

// Nobody here can know whether it has ended.
TEST_F(FolderLockTest, AProcessOfAnotherHostKeepsItsLock) {
  WriteLock("elsewhere 1\n");
  EXPECT_THAT([&] { const FolderLock lock(folder_); },
              ThrowsMessage<InputError>(HasSubstr("(elsewhere 1, as .lock says")));
  EXPECT_EQ(Lock(), "elsewhere 1\n");
}

TEST_F(FolderLockTest, ALockOfTheSystemNeedsNoFile) {
  flock_error = 0;
  const FolderLock lock(folder_);
  EXPECT_FALSE(std::filesystem::exists(file_));
  flock_error = EWOULDBLOCK;
  EXPECT_THAT([&] { const FolderLock second(folder_); },
              ThrowsMessage<InputError>(HasSubstr("another process is running this study")));
}

}  // namespace
}  // namespace twin::run
