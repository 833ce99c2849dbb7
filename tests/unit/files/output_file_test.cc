// Output files: complete or absent, through links, and never in place of a device.
#include "core/files/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "core/files/output_target.h"
#include "core/input_error.h"
#include "tests/support/unique_name.h"

namespace twin {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class OutputFileTest : public ::testing::Test {
 protected:
  OutputFileTest() { fs::create_directories(folder_); }
  ~OutputFileTest() override { fs::remove_all(folder_); }

  static std::string TextOf(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }

  [[nodiscard]] std::set<std::string> Files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

  static InputError ErrorOf(const fs::path& path) {
    try {
      OutputFile file(path);
    } catch (const InputError& error) {
      return error;
    }
    return {InputError::Kind::kData, "", ""};
  }

  fs::path folder_ = fs::temp_directory_path() / testing::UniqueName("output_file");
};

TEST_F(OutputFileTest, AppearsOnCommitAndReplacesWhatWasThere) {
  std::ofstream(folder_ / "a") << "old";
  OutputFile file(folder_ / "a");
  file.Write("new");
  EXPECT_EQ(TextOf(folder_ / "a"), "old");
  file.Commit();
  EXPECT_EQ(TextOf(folder_ / "a"), "new");
  EXPECT_THAT(Files(), UnorderedElementsAre("a"));
}

TEST_F(OutputFileTest, LeavesNothingWithoutCommit) {
  {
    OutputFile file(folder_ / "a");
    file.Write(std::string(1 << 20, 'x'));
    EXPECT_EQ(Files().size(), 1U);
  }
  EXPECT_TRUE(Files().empty());
}

TEST_F(OutputFileTest, FollowsLinksAndKeepsThem) {
  std::ofstream(folder_ / "target") << "old";
  fs::create_symlink("target", folder_ / "near");
  fs::create_symlink(folder_ / "near", folder_ / "far");
  WriteFile(folder_ / "far", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "far"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "near"));
  EXPECT_FALSE(fs::is_symlink(folder_ / "target"));
  EXPECT_EQ(TextOf(folder_ / "target"), "new");
}

TEST_F(OutputFileTest, MakesTheFileThatALinkLeadsTo) {
  fs::create_symlink("absent", folder_ / "link");
  WriteFile(folder_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(TextOf(folder_ / "absent"), "new");
}

TEST_F(OutputFileTest, RefusesLinksInACircle) {
  fs::create_symlink("b", folder_ / "a");
  fs::create_symlink("a", folder_ / "b");
  const InputError error = ErrorOf(folder_ / "a");
  EXPECT_EQ(error.exit_code(), 1);
  EXPECT_THAT(error.what(), HasSubstr("a: cannot be written: Too many levels of symbolic links"));
}

TEST_F(OutputFileTest, WritesIntoAFifoWithoutReplacingIt) {
  const fs::path fifo = folder_ / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = TextOf(fifo); });
  WriteFile(fifo, "through the pipe");
  reader.join();
  EXPECT_EQ(read, "through the pipe");
  EXPECT_TRUE(fs::is_fifo(fifo));
  EXPECT_THAT(Files(), UnorderedElementsAre("fifo"));
}

TEST_F(OutputFileTest, WritesIntoADeviceWithoutReplacingIt) {
  fs::create_symlink("/dev/null", folder_ / "link");
  for (const fs::path& path : {fs::path("/dev/null"), folder_ / "link"}) {
    WriteFile(path, "nowhere");
    EXPECT_TRUE(fs::is_character_file("/dev/null"));
  }
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
}

TEST_F(OutputFileTest, WritesBehindWhatAnOpenFileOfTheProcessHas) {
  const int descriptor = open((folder_ / "open").c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_EQ(write(descriptor, "before ", 7), 7);
  fs::create_symlink("/proc/self/fd/" + std::to_string(descriptor), folder_ / "link");
  WriteFile(folder_ / "link", "after");
  WriteFile("/dev/fd/" + std::to_string(descriptor), " twice");
  close(descriptor);
  EXPECT_EQ(TextOf(folder_ / "open"), "before after twice");
}

TEST_F(OutputFileTest, SaysWhyAPathCannotBeOpened) {
  const InputError missing = ErrorOf(folder_ / "missing" / "a");
  EXPECT_EQ(missing.exit_code(), 1);
  EXPECT_THAT(missing.what(), HasSubstr("missing/a: cannot be written: No such file"));
  EXPECT_THAT(ErrorOf(folder_).what(), HasSubstr("cannot be written: Is a directory"));
}

TEST_F(OutputFileTest, AFullDeviceIsAnErrorOfData) {
  try {
    WriteFile("/dev/full", "x");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.exit_code(), 1);
    EXPECT_STREQ(error.what(), "/dev/full: cannot be written: No space left on device");
  }
}

TEST_F(OutputFileTest, AFolderIsMadeWithThoseAboveItOrRefusedInOneLine) {
  MakeOutputFolder(folder_ / "a/b");
  EXPECT_TRUE(fs::is_directory(folder_ / "a/b"));
  MakeOutputFolder(folder_ / "a/b");
  WriteFile(folder_ / "file", "");
  for (const auto& make : {MakeOutputFolder, RequireOutputFolder}) {
    try {
      make(folder_ / "file/b/c");
      FAIL();
    } catch (const InputError& error) {
      EXPECT_EQ(error.exit_code(), 1);
      EXPECT_EQ(std::string(error.what()),
                (folder_ / "file/b/c").string() + ": cannot be written: Not a directory");
    }
  }
}

TEST_F(OutputFileTest, AskingForAFolderMakesNone) {
  RequireOutputFolder(folder_ / "a/b");
  RequireOutputFolder(folder_);
  EXPECT_TRUE(Files().empty());
  EXPECT_THROW(RequireOutputFolder("/proc/a"), InputError);  // whose permissions allow it
}

TEST(OutputTargetTest, KnowsTheNamesOfTheStandardStreams) {
  EXPECT_EQ(FindOutputTarget("/dev/stdout").descriptor, 1);
  EXPECT_EQ(FindOutputTarget("/dev/stderr").descriptor, 2);
  EXPECT_EQ(FindOutputTarget("/dev/fd/7").descriptor, 7);
}

// A number that no process has: Linux gives out at most 2^22.
constexpr const char* kNobody = "2000000000";

TEST_F(OutputFileTest, NeverWritesThroughAFileOrLinkOfThePartialFilesName) {
  const fs::path mine = folder_ / fmt::format("a.partial.{}", getpid());
  std::ofstream(folder_ / "precious") << "kept";
  fs::create_symlink("precious", mine);
  {
    OutputFile file(folder_ / "a");
    file.Write("new");
    file.Commit();
  }
  EXPECT_EQ(TextOf(folder_ / "a"), "new");
  EXPECT_EQ(TextOf(folder_ / "precious"), "kept");
  EXPECT_TRUE(fs::is_symlink(mine));
  fs::remove(mine);
  std::ofstream(mine) << "of a process of this number in another container";
  WriteFile(folder_ / "a", "newer");
  EXPECT_EQ(TextOf(folder_ / "a"), "newer");
  EXPECT_EQ(TextOf(mine), "of a process of this number in another container");
}

TEST_F(OutputFileTest, RemovesWhatKilledProcessesLeft) {
  std::ofstream(folder_ / fmt::format("a.partial.{}", kNobody)) << "left";
  std::ofstream(folder_ / "a.partial.1") << "of a process that runs";
  std::ofstream(folder_ / "a.partial.notes") << "of a user";
  std::ofstream(folder_ / fmt::format("b.partial.{}", kNobody)) << "of another file";
  fs::create_directory(folder_ / "a.partial.2000000001");
  std::ofstream(folder_ / "a.partial.2000000002") << "locked";
  const int lock = open((folder_ / "a.partial.2000000002").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(lock, LOCK_EX | LOCK_NB), 0);
  WriteFile(folder_ / "a", "new");
  EXPECT_THAT(Files(),
              UnorderedElementsAre("a", "a.partial.1", "a.partial.notes", "a.partial.2000000001",
                                   "a.partial.2000000002", fmt::format("b.partial.{}", kNobody)));
  close(lock);
}

TEST_F(OutputFileTest, TheLockOfAFileInProgressKeepsIt) {
  OutputFile file(folder_ / "a");
  const fs::path partial = folder_ / *Files().begin();
  const int other = open(partial.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_NE(flock(other, LOCK_EX | LOCK_NB), 0);
  close(other);
}

}  // namespace
}  // namespace twin
