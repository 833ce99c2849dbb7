// Requests one after the other, from a file or a generator, without anybody's reaction to them.
#pragma once

#include "core/traced_request.h"

namespace twin {

class RequestStream {
 public:
  virtual ~RequestStream() = default;

  // Assigns every field of `request`, reusing its memory; false, with the request unspecified, at
  // the end. Arrivals do not fall. Throws InputError if the next request cannot be had.
  virtual bool Next(TracedRequest& request) = 0;
};

}  // namespace twin
