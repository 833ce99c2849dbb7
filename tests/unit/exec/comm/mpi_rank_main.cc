// One rank of an MPI job whose ranks check the collectives, or of which one fails on purpose:
//   mpi_rank check | kill RANK | stop RANK | throw RANK
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "exec/comm/mpi_ranks.h"
#include "tests/support/collective_checks.h"

namespace {

void Fail(const std::string& how) {
  if (how == "kill") std::raise(SIGKILL);
  if (how == "stop") std::raise(SIGSTOP);
  throw std::runtime_error("out of memory");
}

int Run(const std::vector<std::string>& words) {
  const bool checks = words.front() == "check";
  twin::exec::MpiRanks ranks(checks ? twin::exec::kRankTimeout : std::chrono::seconds(2));
  twin::exec::Communicator& world = ranks.world();
  if (checks) {
    const std::vector<std::string> wrong = twin::testing::CheckCollectives(world);
    for (const std::string& line : wrong) std::cerr << line << "\n";
    world.Barrier();
    if (world.rank() == 0) std::cout << world.size() << " ranks checked" << std::endl;
    return wrong.empty() ? 0 : 1;
  }
  const std::int32_t failing = std::stoi(words.at(1));
  std::vector<float> values(1000, 1);
  for (int i = 0;; ++i) {
    if (i == 50 && world.rank() == failing) Fail(words.front());
    world.AllReduceSum(values);
    values.assign(values.size(), 1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 3;
  }
}
