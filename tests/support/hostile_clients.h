// Clients of a served model, good and bad, for tests under load.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "core/random.h"

namespace twin {

// What became of the requests of all clients. Counters only grow.
struct ClientCounts {
  std::atomic<std::int64_t> whole_streams = 0;  // read to their end, and found right
  std::atomic<std::int64_t> whole_answers = 0;  // the same, without a stream
  std::atomic<std::int64_t> left = 0;           // the client went before its answer's end
  std::atomic<std::int64_t> slow = 0;           // read more slowly than tokens come
  std::atomic<std::int64_t> refused = 0;        // bad requests that were refused
  std::atomic<std::int64_t> watched = 0;        // GET routes
};

// Draws what to do next from its seed: good requests, bad ones, ones it does not see the end of.
// They fit a model of at least 100 token ids and a length of 128. Not thread-safe.
class HostileClient {
 public:
  // `counts`: borrowed, shared.
  HostileClient(std::uint16_t port, std::uint64_t seed, ClientCounts& counts);

  // Does one thing on a connection of its own. Adds a test failure if the server answers wrongly;
  // once `draining` is set, refusals and cut answers are right, too.
  void Act(const std::atomic<bool>& draining);

 private:
  void Stream(const std::atomic<bool>& draining);
  void Whole(const std::atomic<bool>& draining);
  void Leave();
  void ReadSlowly();
  void SendNonsense();
  void SendHalf();
  void Watch(const std::atomic<bool>& draining);
  std::string Completion(std::int64_t max_tokens, const std::string& more);

  std::uint16_t port_;
  Random random_;
  ClientCounts& counts_;
};

}  // namespace twin
