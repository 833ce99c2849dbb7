// Identifiers, each a type of its own. Request, block and step ids are dense numbers that one owner
// assigns.
#pragma once

#include <cstdint>

namespace twin {

// A request. Its world numbers requests in order of arrival, so that a smaller id never arrived
// later. Every tie between requests is broken by this order.
enum class RequestId : std::uint32_t {};

// A page of the KV cache: `block_size` tokens of all layers of one replica (one pipeline stage).
// Device and host blocks are numbered separately, each from 0.
enum class BlockId : std::int32_t { kNone = -1 };

// A step of one engine, numbered from 1 in the order of planning.
enum class StepId : std::uint64_t {};

// Identifies the content of a full KV block and of everything before it: equal keys mean equal
// prefixes. The top bit marks a private key, whose content no other request can have.
enum class BlockKey : std::uint64_t {};

constexpr std::uint32_t Index(RequestId id) { return static_cast<std::uint32_t>(id); }
constexpr std::uint32_t Index(BlockId id) { return static_cast<std::uint32_t>(id); }
constexpr std::uint64_t Index(StepId id) { return static_cast<std::uint64_t>(id); }

constexpr std::uint64_t kPrivateKeyBit = std::uint64_t{1} << 63;
constexpr bool IsPrivate(BlockKey key) {
  return (static_cast<std::uint64_t>(key) & kPrivateKeyBit) != 0;
}
constexpr BlockKey SharedKey(std::uint64_t hash) { return BlockKey{hash & ~kPrivateKeyBit}; }
constexpr BlockKey PrivateKey(std::uint64_t hash) { return BlockKey{hash | kPrivateKeyBit}; }

}  // namespace twin
