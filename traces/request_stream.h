// A sequence of requests that does not depend on their completion: a file or a generator.
#pragma once

#include "core/traced_request.h"

namespace twin {

class RequestStream {
 public:
  virtual ~RequestStream() = default;

  // Assigns every field of `request`, reusing its memory. At the end returns false and leaves
  // `request` unspecified. Arrivals never decrease. Throws InputError if the input is bad.
  virtual bool Next(TracedRequest& request) = 0;
};

}  // namespace twin
