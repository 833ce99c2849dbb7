// The JSON header of a safetensors file, checked in full before anything relies on it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exec/model/stored_tensor.h"

namespace twin::exec {

// A tensor and its bytes, counted from the first byte after the header.
struct HeaderEntry {
  std::string name;
  StoredType type{};
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// Parses the header. Returns the tensors in the order of their data, which they cover from 0 to
// `data_bytes` without gap or overlap.
//
// Throws InputError (data), `where` first, then the tensor's name, for: text that is not JSON (with
// the byte), a name given twice, an unknown dtype, a shape that is not a list of sizes or whose
// bytes overflow, offsets that are reversed, beyond the data or at odds with dtype and shape,
// ranges that overlap or leave a gap, data that no tensor covers. Allocates in proportion to
// `text`, whatever numbers it contains.
std::vector<HeaderEntry> ParseSafetensorsHeader(std::string_view text, std::uint64_t data_bytes,
                                                const std::string& where);

}  // namespace twin::exec
