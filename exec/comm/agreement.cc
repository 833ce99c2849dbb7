#include "exec/comm/agreement.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <span>

namespace twin::exec {
namespace {

constexpr std::int32_t kNoRank = -1;

std::int32_t TakeNumber(Communicator& group, std::int32_t from) {
  std::int32_t number = 0;
  group.Receive(std::as_writable_bytes(std::span(&number, 1)), from, Patience::kUnbounded);
  return number;
}

// Uses messages, because the wait of a collective has a limit: rank 0 receives the results of all
// other ranks and answers them.
std::int32_t LowestThatFailed(Communicator& group, bool own_failed) {
  std::int32_t failed = own_failed ? group.rank() : kNoRank;
  const auto bytes = std::as_bytes(std::span(&failed, 1));
  if (group.rank() > 0) {
    group.Send(bytes, 0);
    return TakeNumber(group, 0);
  }
  for (std::int32_t rank = 1; rank < group.size(); ++rank) {
    const std::int32_t other = TakeNumber(group, rank);
    if (failed == kNoRank) failed = other;
  }
  for (std::int32_t rank = 1; rank < group.size(); ++rank) group.Send(bytes, rank);
  return failed;
}

}  // namespace

bool SucceedTogether(Communicator& group, const std::function<void()>& body) {
  std::exception_ptr thrown;
  try {
    body();
  } catch (...) {
    thrown = std::current_exception();
  }
  const std::int32_t failed = LowestThatFailed(group, thrown != nullptr);
  if (failed == kNoRank) return true;
  if (failed == group.rank()) std::rethrow_exception(thrown);
  return false;
}

std::vector<std::string> GatherTexts(Communicator& group, const std::string& own) {
  const auto ranks = static_cast<std::size_t>(group.size());
  const std::uint64_t size = own.size();
  std::vector<std::uint64_t> sizes(ranks);
  group.AllGather(std::as_bytes(std::span(&size, 1)), std::as_writable_bytes(std::span(sizes)));
  const auto longest = static_cast<std::size_t>(*std::max_element(sizes.begin(), sizes.end()));
  std::string padded = own;
  padded.resize(longest);
  std::string all(longest * ranks, '\0');
  group.AllGather(std::as_bytes(std::span(padded)), std::as_writable_bytes(std::span(all)));
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < ranks; ++r) {
    texts.push_back(all.substr(r * longest, static_cast<std::size_t>(sizes[r])));
  }
  return texts;
}

}  // namespace twin::exec
