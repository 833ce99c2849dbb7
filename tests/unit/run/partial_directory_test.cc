// A run's folder replaces an earlier one in one step, and killed runs leave nothing for long.
#include "run/partial_directory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tests/support/unique_name.h"
#include "tests/unit/run/reports.h"

namespace twin::run {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// The number of a process that has ended.
int DeadProcess() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return child;
}

class PartialDirectoryTest : public ::testing::Test {
 protected:
  PartialDirectoryTest() { fs::create_directories(folder_); }
  ~PartialDirectoryTest() override { fs::remove_all(folder_); }

  void Write(const std::string& file, const std::string& text = "") const {
    fs::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << text;
  }

  [[nodiscard]] std::set<std::string> Files(const std::string& folder = "") const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / folder)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

  fs::path folder_ = fs::temp_directory_path() / testing::UniqueName("partial_directory");
};

TEST_F(PartialDirectoryTest, ReplacesAFolderAndLeavesNothingElse) {
  Write("run/old");
  PartialDirectory made(folder_ / "run", nullptr);
  std::ofstream(made.path() / "new") << "x";
  EXPECT_THAT(Files("run"), UnorderedElementsAre("old"));
  made.Commit();
  EXPECT_THAT(Files("run"), UnorderedElementsAre("new"));
  EXPECT_THAT(Files(), UnorderedElementsAre("run"));
}

TEST_F(PartialDirectoryTest, WithoutCommitTheOldFolderStays) {
  Write("run/old");
  { const PartialDirectory made(folder_ / "run", nullptr); }
  EXPECT_THAT(Files("run"), UnorderedElementsAre("old"));
  EXPECT_THAT(Files(), UnorderedElementsAre("run"));
}

TEST_F(PartialDirectoryTest, ReplacesWhatALinkLeadsToAndKeepsTheLink) {
  Write("target/old");
  fs::create_directory_symlink("target", folder_ / "run");
  PartialDirectory made(folder_ / "run", nullptr);
  std::ofstream(made.path() / "new") << "x";
  made.Commit();
  EXPECT_TRUE(fs::is_symlink(folder_ / "run"));
  EXPECT_THAT(Files("target"), UnorderedElementsAre("new"));
  EXPECT_THAT(Files(), UnorderedElementsAre("run", "target"));
}

TEST_F(PartialDirectoryTest, RemovesWhatAKilledRunLeftAndSaysSo) {
  const std::string left = "run.partial." + std::to_string(DeadProcess());
  Write(left + "/.twinserve-partial");
  Write(left + "/steps.csv", "half a row");
  Reports heard;
  const PartialDirectory made(folder_ / "run", &heard);
  EXPECT_FALSE(fs::exists(folder_ / left));
  ASSERT_EQ(heard.notes.size(), 1U);
  EXPECT_THAT(heard.notes[0], HasSubstr(left + ", left behind by a run that was killed"));
}

TEST_F(PartialDirectoryTest, LeavesFoldersOfOthersAlone) {
  const std::string dead = std::to_string(DeadProcess());
  Write("run.partial." + dead + "/notes.txt");             // no marker: not ours
  Write("run.partial.1/.twinserve-partial");               // process 1 exists
  Write("other.partial." + dead + "/.twinserve-partial");  // another run's
  const std::string elsewhere = "run.partial.0" + dead;    // its process is in a container
  Write(elsewhere + "/.twinserve-partial");
  const int lock = open((folder_ / elsewhere / ".twinserve-partial").c_str(), O_RDWR);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  const auto before = Files();
  Reports heard;
  { const PartialDirectory made(folder_ / "run", &heard); }
  EXPECT_EQ(Files(), before);
  EXPECT_THAT(heard.notes, IsEmpty());
  close(lock);
}

TEST_F(PartialDirectoryTest, ASecondRunIntoOnePlaceLeavesTheFirstOnesFilesAlone) {
  PartialDirectory first(folder_ / "run", nullptr);
  PartialDirectory second(folder_ / "run", nullptr);
  EXPECT_NE(first.path(), second.path());
  std::ofstream(first.path() / "first") << "x";
  std::ofstream(second.path() / "second") << "x";
  second.Commit();
  first.Commit();
  EXPECT_THAT(Files("run"), ElementsAre("first"));
  EXPECT_THAT(Files(), UnorderedElementsAre("run"));
}

}  // namespace
}  // namespace twin::run
