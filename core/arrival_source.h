// Where a world's requests come from: a trace, a generator, a closed loop of users.
#pragma once

#include "core/ids.h"
#include "core/time.h"
#include "core/traced_request.h"

namespace twin {

// A stream of requests in order of arrival. A world gives the k-th request taken the RequestId k
// (from 0), so a source that reacts to completions can count along.
// Memory does not grow with the number of requests already taken.
class ArrivalSource {
 public:
  virtual ~ArrivalSource() = default;

  // The next request, or nullptr when none is known now (more may follow after OnDone, if any
  // request is still outstanding). Stable until Take() or OnDone(). Arrivals never decrease.
  virtual const TracedRequest* Peek() = 0;

  // Takes the request that Peek() shows. REQUIRES: Peek() != nullptr.
  virtual void Take() = 0;

  // The request left the system at `now`: finished, cancelled or rejected. Closed-loop sources
  // derive later arrivals from it (never earlier than `now`).
  virtual void OnDone(RequestId id, TimePoint now) = 0;
};

}  // namespace twin
