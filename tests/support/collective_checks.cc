#include "tests/support/collective_checks.h"

#include <cstring>
#include <thread>

#include "core/random.h"

namespace twin::testing {
namespace {

using exec::Communicator;
using exec::Patience;
using Lines = std::vector<std::string>;

// Around the shares of 1 to 4 ranks, a page, and what MPI sends without asking the receiver.
constexpr std::size_t kSizes[] = {0, 1, 2, 3, 5, 7, 63, 64, 65, 1023, 4097, 100'003};

// What rank `rank` has before a sum: of mixed magnitudes, so that the order of adding shows.
std::vector<float> ValuesOf(std::int32_t rank, std::size_t count) {
  Random random(static_cast<std::uint64_t>(rank) + 1, "values");
  std::vector<float> values(count);
  for (float& value : values) {
    const float magnitude = random.UniformInt(0, 1) == 0 ? 1.0F : 1e6F;
    value = magnitude * static_cast<float>(random.Normal());
  }
  return values;
}

std::byte ByteOf(std::int32_t rank, std::size_t place) {
  return static_cast<std::byte>(static_cast<std::size_t>(rank) * 31 + place * 7 + 1);
}

std::vector<std::byte> BytesOf(std::int32_t rank, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = ByteOf(rank, i);
  return bytes;
}

void Expect(bool holds, const Communicator& group, const std::string& what, Lines& wrong) {
  if (!holds) wrong.push_back("rank " + std::to_string(group.rank()) + ": " + what);
}

void CheckSums(Communicator& group, std::size_t count, Lines& wrong) {
  std::vector<float> expected = ValuesOf(0, count);
  for (std::int32_t r = 1; r < group.size(); ++r) {
    const std::vector<float> more = ValuesOf(r, count);
    for (std::size_t i = 0; i < count; ++i) expected[i] += more[i];
  }
  std::vector<float> values = ValuesOf(group.rank(), count);
  group.AllReduceSum(values);
  const bool equal =
      count == 0 || std::memcmp(values.data(), expected.data(), count * sizeof(float)) == 0;
  Expect(equal, group, "all-reduce of " + std::to_string(count) + " is not the sum in rank order",
         wrong);
}

void CheckGather(Communicator& group, std::size_t count, Lines& wrong) {
  std::vector<std::byte> expected;
  for (std::int32_t r = 0; r < group.size(); ++r) {
    const std::vector<std::byte> bytes = BytesOf(r, count);
    expected.insert(expected.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> all(expected.size());
  group.AllGather(BytesOf(group.rank(), count), all);
  Expect(all == expected, group, "all-gather of " + std::to_string(count), wrong);
}

void CheckBroadcasts(Communicator& group, std::size_t count, Lines& wrong) {
  for (std::int32_t root = 0; root < group.size(); ++root) {
    std::vector<std::byte> bytes = BytesOf(group.rank() + 5, count);
    const std::vector<std::byte> expected = BytesOf(root + 5, count);
    group.Broadcast(bytes, root);
    Expect(bytes == expected, group,
           "broadcast of " + std::to_string(count) + " from " + std::to_string(root), wrong);
  }
}

// Everybody sends two messages to everybody before receiving any: none may wait for its receiver.
void CheckMessages(Communicator& group, std::size_t count, Lines& wrong) {
  for (std::int32_t to = 0; to < group.size(); ++to) {
    if (to == group.rank()) continue;
    group.Send(BytesOf(group.rank(), count), to);
    group.Send(BytesOf(group.rank() + 100, 3), to);
  }
  for (std::int32_t from = 0; from < group.size(); ++from) {
    if (from == group.rank()) continue;
    if (group.size() == 2) {
      while (!group.HasMessage(from)) std::this_thread::yield();
    }
    std::vector<std::byte> first(count);
    std::vector<std::byte> second(3);
    group.Receive(first, from, Patience::kBounded);
    group.Receive(second, from, Patience::kUnbounded);
    Expect(first == BytesOf(from, count) && second == BytesOf(from + 100, 3), group,
           "messages of " + std::to_string(count) + " from " + std::to_string(from), wrong);
    group.Barrier();  // nobody sends again before all have asked
    Expect(!group.HasMessage(from), group, "a message that nobody sent", wrong);
    group.Barrier();
  }
}

void CheckAll(Communicator& group, Lines& wrong) {
  for (const std::size_t count : kSizes) {
    CheckSums(group, count, wrong);
    CheckGather(group, count, wrong);
    CheckBroadcasts(group, count, wrong);
    if (group.size() > 1) CheckMessages(group, count, wrong);
  }
  group.Barrier();
}

}  // namespace

std::vector<std::string> CheckCollectives(Communicator& group) {
  Lines wrong;
  CheckAll(group, wrong);
  // Ranks 0, 2, ... and 1, 3, ...; then the halves of those.
  const std::unique_ptr<Communicator> part = group.Split(group.rank() % 2);
  Expect(part->rank() == group.rank() / 2, group, "rank within a split", wrong);
  Expect(part->size() == (group.size() + 1 - group.rank() % 2) / 2, group, "size of a split",
         wrong);
  CheckAll(*part, wrong);
  const std::unique_ptr<Communicator> alone = part->Split(part->rank());
  Expect(alone->size() == 1, group, "size of a split of a split", wrong);
  CheckAll(*alone, wrong);
  CheckAll(group, wrong);
  return wrong;
}

}  // namespace twin::testing
