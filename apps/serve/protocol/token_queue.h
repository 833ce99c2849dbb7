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
    std::optional<run::GenerationEnd> end;  // after the tokens
    bool overflowed = false;                // tokens were dropped: the answer cannot go on

    void Clear();  // keeps the memory of a few tokens
  };

  // The tokens that may end an answer, so that the last token and the end are taken together.
  struct Last {
    std::int32_t max_tokens = 0;
    std::int32_t min_tokens = 0;
    std::vector<std::int32_t> tokens;  // end tokens, after min_tokens
  };

  // `wake` is called on the service's thread when the queue is no longer empty, when it overflows,
  // and at the end. `bytes_max` bounds the waiting tokens.
  TokenQueue(Last last, std::size_t bytes_max, std::function<void()> wake);

  void OnToken(const run::GeneratedToken& token) override;
  void OnEnd(const run::GenerationEnd& end) override;

  // From any thread. Replaces the content of `taken`; the queue reuses its memory.
  void Take(Taken& taken);
  // From any thread.
  [[nodiscard]] bool overflowed();

 private:
  const Last last_;
  const std::size_t bytes_max_;
  std::function<void()> wake_;  // empty after the end: it may own the owner of this queue

  std::mutex mutex_;  // guards the members below
  Taken waiting_;
  std::size_t bytes_ = 0;
  std::int32_t told_ = 0;
  // The last token waits for the end, which the service tells next.
  std::optional<run::GeneratedToken> held_;
};

}  // namespace twin::serve
