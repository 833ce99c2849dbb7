// Carries the tokens of one answer from the service's thread to the connection's.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "apps/serve/service/service.h"

namespace twin::serve {

// The service never waits for a client: a queue over its bound takes no more tokens and says so.
class TokenQueue final : public run::GenerationSink {
 public:
  struct Taken {
    std::vector<run::GeneratedToken> tokens;
    std::optional<run::GenerationEnd> end;  // behind the tokens
    bool overflowed = false;                // tokens were dropped: the answer cannot go on

    void Clear();  // keeps the memory of a few tokens
  };

  // Which tokens may end an answer, so that the last token and the end are taken together.
  struct Last {
    std::int32_t max_tokens = 0;
    std::int32_t min_tokens = 0;
    std::vector<std::int32_t> tokens;  // that end the answer beyond min_tokens
  };

  // `wake` is called on the service's thread when there is something to take and nothing was
  // before, and when the queue overflows. `bytes_max` bounds what waits.
  TokenQueue(Last last, std::size_t bytes_max, std::function<void()> wake);

  void OnToken(const run::GeneratedToken& token) override;
  void OnEnd(const run::GenerationEnd& end) override;

  // From any thread. Replaces what is in `taken`, whose memory the queue goes on with.
  void Take(Taken& taken);
  // From any thread.
  [[nodiscard]] bool overflowed();

 private:
  const Last last_;
  const std::size_t bytes_max_;
  std::function<void()> wake_;  // empty behind the end: it may own who owns this queue

  std::mutex mutex_;  // of what follows
  Taken waiting_;
  std::size_t bytes_ = 0;
  std::int32_t told_ = 0;
  // The last token waits for the end, which the service tells next.
  std::optional<run::GeneratedToken> held_;
};

}  // namespace twin::serve
