#include "tests/support/mpi_job.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace twin::testing {
namespace {

namespace fs = std::filesystem;

std::string Quoted(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string TakeText(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  fs::remove(file);
  return text;
}

}  // namespace

MpiJobOutcome RunMpiJob(const fs::path& folder, int ranks, const std::vector<std::string>& words,
                        int seconds_max) {
  static int jobs = 0;
  const fs::path stem = fs::temp_directory_path() /
                        ("twin_mpi_" + std::to_string(getpid()) + "_" + std::to_string(++jobs));
  const std::string out = stem.string() + ".out";
  const std::string err = stem.string() + ".err";
  // More ranks than cores is what a small machine has; MPI itself never frees all that it took.
  std::string line = "cd " + Quoted(folder.string()) +
                     " && OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
                     " ASAN_OPTIONS=detect_leaks=0 timeout --kill-after=5 " +
                     std::to_string(seconds_max) + " " + Quoted(TWIN_MPIRUN) +
                     " --oversubscribe --mca mpi_yield_when_idle 1 -n " + std::to_string(ranks);
  for (const std::string& word : words) line += " " + Quoted(word);
  line += " >" + Quoted(out) + " 2>" + Quoted(err) + " </dev/null";
  const auto begin = std::chrono::steady_clock::now();
  const int status = std::system(line.c_str());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  MpiJobOutcome outcome;
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.out = TakeText(out);
  outcome.err = TakeText(err);
  outcome.seconds = took.count();
  return outcome;
}

}  // namespace twin::testing
