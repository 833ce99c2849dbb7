// Makes token ids for workloads that give only lengths and shared content.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/id_window.h"
#include "core/traced_request.h"

namespace twin::exec {

// A prompt token is a function of the seed, its position, and its chunk where the workload names
// the content, else its request: chunks of one name are equal token by token. A chunk that an
// earlier request generated (a conversation's last answer) is given as it was generated, to
// requests whose chunks have the same size. Memory: the named tokens of open requests, and all
// named chunks ever generated.
class RequestTokens {
 public:
  // REQUIRES: vocab >= 1.
  RequestTokens(std::uint64_t seed, std::int32_t vocab) : seed_(seed), vocab_(vocab) {}

  // The prompt of a request that arrives. REQUIRES: ids rise.
  std::vector<std::int32_t> Open(RequestId id, const TracedRequest& request);
  // The next token of its output. REQUIRES: it is open.
  void Append(RequestId id, std::int32_t token);
  void Close(RequestId id);

 private:
  struct Named {
    std::vector<std::uint64_t> chunks;  // empty unless the workload names output too
    std::int32_t chunk_tokens = 0;
    std::vector<std::int32_t> tokens;  // so far, with the prompt
  };

  [[nodiscard]] std::int32_t TokenAt(std::uint64_t content, std::size_t position) const;

  std::uint64_t seed_;
  std::int32_t vocab_;
  IdWindow<Named> open_;
  // By chunk and its size, which requests of one workload may differ in.
  std::map<std::pair<std::uint64_t, std::int32_t>, std::vector<std::int32_t>> generated_;
};

}  // namespace twin::exec
