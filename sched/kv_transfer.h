// A copy of keys and values from the replica that computed a prompt to the one that decodes it.
#pragma once

#include <cstdint>
#include <span>

#include "core/ids.h"
#include "core/time.h"

namespace twin {

// Copies positions [start, tokens) of a request. Handed out by a Cluster after the plans of an
// instant, once the prompt is computed and blocks for it are taken at the target.
//
// Both replicas keep their blocks until the world has reported TransferFinished, also if the
// request is cancelled meanwhile: until then the spans stay valid, and no plan gives the blocks to
// anyone else. Steps of `to` that are in flight when the transfer begins may still write to its
// blocks (the token after the end of a request that held them before): a device copies after these
// steps. A plan of `to` that is launched later lists the target blocks as allocated
// (KvOperation::Kind::kAllocate), before its first work for the request.
struct KvTransfer {
  RequestId request{};
  std::int32_t from = 0;   // replica
  std::int32_t to = 0;     // another one
  std::int32_t start = 0;  // tokens before it are in the target's prefix cache; a multiple of the
                           // block size
  std::int32_t tokens = 0;
  std::span<const BlockId> source;  // blocks of the positions, in order; the last may be half full
  std::span<const BlockId> target;  // as many
  TimePoint computed;               // when the source had the keys and values

  [[nodiscard]] std::int32_t copied_tokens() const { return tokens - start; }
};

}  // namespace twin
