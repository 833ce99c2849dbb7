// One rank of an MPI job whose ranks check the collectives, or of which one fails on purpose:
//   mpi_rank check | kill RANK | stop RANK | throw RANK | strand RANK
// To strand is to stop with many groups' messages unread.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "exec/comm/mpi_ranks.h"
#include "tests/support/collective_checks.h"

namespace {

using twin::exec::Communicator;

void Fail(const std::string& how) {
  if (how == "kill") std::raise(SIGKILL);
  if (how == "stop" || how == "strand") std::raise(SIGSTOP);
  throw std::runtime_error("out of memory");
}

// Groups that each have sent `to` more than MPI sends without asking the receiver.
std::vector<std::unique_ptr<Communicator>> SendFromManyGroups(Communicator& world,
                                                              std::int32_t to) {
  const std::vector<std::byte> bytes(1'000'000);
  std::vector<std::unique_ptr<Communicator>> groups;
  for (int i = 0; i < 15; ++i) {
    groups.push_back(world.Split(0));
    if (world.rank() != to) groups.back()->Send(bytes, to);
  }
  return groups;
}

int Run(const std::vector<std::string>& words) {
  const bool checks = words.front() == "check";
  twin::exec::MpiRanks ranks(checks ? twin::exec::kRankTimeout : std::chrono::seconds(2));
  Communicator& world = ranks.world();
  if (checks) {
    const std::vector<std::string> wrong = twin::testing::CheckCollectives(world);
    for (const std::string& line : wrong) std::cerr << line << "\n";
    world.Barrier();
    if (world.rank() == 0) std::cout << world.size() << " ranks checked" << std::endl;
    return wrong.empty() ? 0 : 1;
  }
  const std::int32_t failing = std::stoi(words.at(1));
  std::vector<std::unique_ptr<Communicator>> groups;
  if (words.front() == "strand") groups = SendFromManyGroups(world, failing);
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
