#include "exec/comm/agreement.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <span>

namespace twin::exec {

bool SucceedTogether(Communicator& group, const std::function<void()>& body) {
  std::exception_ptr thrown;
  try {
    body();
  } catch (...) {
    thrown = std::current_exception();
  }
  const std::byte own{static_cast<unsigned char>(thrown ? 1 : 0)};
  std::vector<std::byte> all(static_cast<std::size_t>(group.size()));
  group.AllGather(std::span(&own, 1), all);
  const auto first = std::find(all.begin(), all.end(), std::byte{1});
  if (first == all.end()) return true;
  if (first - all.begin() == group.rank()) std::rethrow_exception(thrown);
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
