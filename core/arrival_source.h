// The interface through which a world gets its requests: from a trace, a generator, or a closed
// loop of users.
#pragma once

#include <cstdint>

#include "core/ids.h"
#include "core/time.h"
#include "core/traced_request.h"

namespace twin {

// A stream of requests in order of arrival. The k-th request taken (from 0) gets the RequestId k,
// so that a source that reacts to completions knows the ids by counting its own requests.
// Memory use does not grow with the number of requests already taken.
class ArrivalSource {
 public:
  virtual ~ArrivalSource() = default;

  // The next request, or nullptr if none is known yet. While requests are outstanding, OnDone may
  // make further ones known. The pointer is valid until Take() or OnDone(). Arrival times never
  // decrease.
  virtual const TracedRequest* Peek() = 0;

  // Removes the request that Peek() returns. REQUIRES: Peek() != nullptr.
  virtual void Take() = 0;

  // Reports that the request left the system at `now`. `answer_tokens`: the length of its finished
  // answer; 0 = it was rejected, or its client gave up. Closed loops and conversations derive later
  // requests from it, never earlier than `now`.
  virtual void OnDone(RequestId id, TimePoint now, std::int32_t answer_tokens) = 0;

  // True while other threads may still make requests known: worlds that run by a clock then wait
  // for them. From any thread.
  [[nodiscard]] virtual bool open() const { return false; }

  // False if OnDone changes nothing: all requests can then be taken before any is done, and OnDone
  // may be called in any order.
  [[nodiscard]] virtual bool reacts() const { return true; }
};

}  // namespace twin
