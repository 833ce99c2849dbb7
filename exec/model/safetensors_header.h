// The JSON header of a safetensors file, checked in full before anything relies on it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exec/model/stored_tensor.h"

namespace twin::exec {

// Where a tensor lies, from the first byte behind the header.
struct HeaderEntry {
  std::string name;
  StoredType type{};
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// The tensors in the order of their data, which they cover without gap or overlap from 0 to
// `data_bytes`.
//
// Throws InputError (data), `where` first, then the tensor's name, for: no JSON (with the byte),
// a name given twice, an unknown dtype, a shape that is no list of sizes or whose bytes overflow,
// offsets that are reversed, lie beyond the data or disagree with dtype and shape, ranges that
// overlap or leave a gap, data that no tensor covers.
// Allocates in proportion to `text`, whatever numbers it holds.
std::vector<HeaderEntry> ParseSafetensorsHeader(std::string_view text, std::uint64_t data_bytes,
                                                const std::string& where);

}  // namespace twin::exec
