#include "tests/support/command_line.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>

#include "core/check.h"

namespace twin::testing {
namespace {

namespace fs = std::filesystem;

// A new file of a name that nobody else has.
fs::path NewFile() {
  std::string name = (fs::temp_directory_path() / "twinserve_XXXXXX").string();
  const int file = mkstemp(name.data());
  CHECK(file >= 0);
  close(file);
  return name;
}

std::string TakeText(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

Command::Command(const fs::path& folder, const std::vector<std::string>& arguments,
                 std::uint64_t open_files_max)
    : out_(NewFile()), err_(NewFile()) {
  std::vector<std::string> words = arguments;
  words.insert(words.begin(), TWINSERVE);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  process_ = fork();
  CHECK(process_ >= 0);
  if (process_ > 0) return;
  // In the child, only what is safe between fork and exec.
  const int out = open(out_.c_str(), O_WRONLY | O_TRUNC);
  const int err = open(err_.c_str(), O_WRONLY | O_TRUNC);
  const bool ready = out >= 0 && err >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
                     dup2(err, STDERR_FILENO) >= 0 && chdir(folder.c_str()) == 0;
  const rlimit files{.rlim_cur = open_files_max, .rlim_max = open_files_max};
  const bool limited = open_files_max == 0 || setrlimit(RLIMIT_NOFILE, &files) == 0;
  if (ready && limited) execv(argv[0], argv.data());
  _exit(127);
}

Command::~Command() {
  std::error_code ignored;
  fs::remove(out_, ignored);
  fs::remove(err_, ignored);
}

void Command::Signal(int number) const { CHECK(kill(process_, number) == 0); }

CommandOutcome Command::Wait() {
  int status = 0;
  while (waitpid(process_, &status, 0) < 0) CHECK(errno == EINTR);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, TakeText(out_), TakeText(err_)};
}

}  // namespace twin::testing
