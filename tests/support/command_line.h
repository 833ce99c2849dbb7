// The built program as its users run it: arguments in, exit code and texts out.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace twin::testing {

struct CommandOutcome {
  int exit_code = -1;  // -1: ended by a signal
  std::string out;     // what it wrote to stdout
  std::string err;     // to stderr

  [[nodiscard]] bool wrote_one_line() const {
    return !err.empty() && err.find('\n') == err.size() - 1;
  }
  // The program was built without the command (TWIN_EXEC, TWIN_SERVING).
  [[nodiscard]] bool needs_another_build() const {
    return err.find("which was built with -D") != std::string::npos;
  }
};

// One call of twinserve in a folder of its own choice. Its outputs go to files below the system's
// folder for such, which are removed.
class Command {
 public:
  // Starts it; `open_files_max`, unless 0, is the limit of its open files. REQUIRES: the test is
  // compiled with TWINSERVE, the program's path.
  Command(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
          std::uint64_t open_files_max = 0);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  void Signal(int number) const;
  // Waits for its end. REQUIRES: called once.
  CommandOutcome Wait();

 private:
  std::filesystem::path out_;
  std::filesystem::path err_;
  pid_t process_ = -1;
};

inline CommandOutcome RunCommand(const std::filesystem::path& folder,
                                 const std::vector<std::string>& arguments) {
  return Command(folder, arguments).Wait();
}

}  // namespace twin::testing
