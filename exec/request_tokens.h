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

// A prompt token depends only on the seed, its position, and its chunk if the workload names the
// content, otherwise its request: chunks of one name are equal token by token. If an earlier
// request generated a chunk (the last answer of a conversation), requests whose chunks have the
// same size get the tokens as they were generated. Memory: the named tokens of open requests, and
// all named chunks ever generated.
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
    std::vector<std::int32_t> tokens;  // of the prompt and the output so far
  };

  [[nodiscard]] std::int32_t TokenAt(std::uint64_t content, std::size_t position) const;

  std::uint64_t seed_;
  std::int32_t vocab_;
  IdWindow<Named> open_;
  // By chunk and chunk size; requests of one workload may differ in the size.
  std::map<std::pair<std::uint64_t, std::int32_t>, std::vector<std::int32_t>> generated_;
};

}  // namespace twin::exec
