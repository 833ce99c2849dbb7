#include "exec/model/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <set>

#include <nlohmann/json.hpp>

#include "core/input_error.h"
#include "core/printable.h"

namespace twin::exec {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kNameShown = 120;

[[noreturn]] void Refuse(const std::string& where, const std::string& what) {
  throw InputError(InputError::Kind::kData, where, what);
}

[[noreturn]] void RefuseTensor(const std::string& where, const std::string& name,
                               const std::string& what) {
  Refuse(where, "tensor '" + Printable(name, kNameShown) + "': " + what);
}

std::string Shown(const Json& value) {
  return Printable(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

// Builds the header from the parser's events and checks them, because a JSON object silently keeps
// one of two equal keys, and because a header has no deep nesting. The library's own callback would
// look through all keys before each object that ends.
class HeaderBuilder : public nlohmann::detail::json_sax_dom_parser<Json> {
 public:
  using Base = nlohmann::detail::json_sax_dom_parser<Json>;

  HeaderBuilder(Json& header, const std::string& where) : Base(header), where_(where) {}

  bool start_object(std::size_t size) {
    Open();
    if (depth_ <= kKeyDepths) keys_[depth_ - 1].clear();
    return Base::start_object(size);
  }
  bool end_object() {
    --depth_;
    return Base::end_object();
  }
  bool start_array(std::size_t size) {
    Open();
    return Base::start_array(size);
  }
  bool end_array() {
    --depth_;
    return Base::end_array();
  }
  bool key(std::string& key) {
    if (depth_ == 1) tensor_ = key;
    if (depth_ <= kKeyDepths && !keys_[depth_ - 1].insert(key).second) {
      if (depth_ == 1) RefuseTensor(where_, key, "the name is in the header twice");
      RefuseTensor(where_, tensor_, "the field '" + Printable(key) + "' is there twice");
    }
    return Base::key(key);
  }

 private:
  static constexpr int kKeyDepths = 2;  // header and tensor
  static constexpr int kDepthMost = 3;  // header, tensor, list

  void Open() {
    if (++depth_ > kDepthMost) {
      Refuse(where_, "the header nests deeper than a safetensors header may");
    }
  }

  const std::string& where_;
  std::string tensor_;
  std::set<std::string> keys_[kKeyDepths];
  int depth_ = 0;
};

Json ParseObject(std::string_view text, const std::string& where) {
  Json header;
  HeaderBuilder builder(header, where);
  try {
    Json::sax_parse(text, &builder);
  } catch (const Json::exception& error) {
    const auto* parse_error = dynamic_cast<const Json::parse_error*>(&error);
    const std::string place =
        parse_error == nullptr ? "" : " (byte " + std::to_string(parse_error->byte) + " of it)";
    Refuse(where, "the safetensors header is not valid JSON" + place);
  }
  if (!header.is_object()) Refuse(where, "the safetensors header is no JSON object");
  return header;
}

void CheckMetadata(const Json& metadata, const std::string& where) {
  const bool sound =
      metadata.is_object() &&
      std::all_of(metadata.begin(), metadata.end(), [](const Json& v) { return v.is_string(); });
  if (!sound) Refuse(where, "__metadata__ in the header must be an object of strings");
}

const Json& Field(const Json& object, const char* field, const std::string& where,
                  const std::string& name) {
  const auto found = object.find(field);
  if (found == object.end()) {
    RefuseTensor(where, name,
                 std::string(field) + " is missing; needed are dtype, shape and data_offsets");
  }
  return *found;
}

StoredType TypeOf(const Json& object, const std::string& where, const std::string& name) {
  const Json& dtype = Field(object, "dtype", where, name);
  const auto type = dtype.is_string() ? ParseStoredType(dtype.get_ref<const std::string&>())
                                      : std::optional<StoredType>();
  if (!type) {
    RefuseTensor(where, name, "unknown dtype " + Shown(dtype) + "; allowed: " + StoredTypeNames());
  }
  return *type;
}

std::vector<std::int64_t> ShapeOf(const Json& object, const std::string& where,
                                  const std::string& name) {
  const Json& shape = Field(object, "shape", where, name);
  const bool sizes =
      shape.is_array() && std::all_of(shape.begin(), shape.end(), [](const Json& size) {
        return size.is_number_unsigned() &&
               size.get<std::uint64_t>() <=
                   static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
      });
  if (!sizes) {
    RefuseTensor(where, name, "shape is " + Shown(shape) + ", must be a list of integers >= 0");
  }
  return shape.get<std::vector<std::int64_t>>();
}

void ReadOffsets(const Json& object, const std::string& where, HeaderEntry& entry) {
  const Json& offsets = Field(object, "data_offsets", where, entry.name);
  const bool pair = offsets.is_array() && offsets.size() == 2 && offsets[0].is_number_unsigned() &&
                    offsets[1].is_number_unsigned();
  if (!pair) {
    RefuseTensor(where, entry.name,
                 "data_offsets is " + Shown(offsets) + ", must be [begin, end] of integers >= 0");
  }
  entry.begin = offsets[0].get<std::uint64_t>();
  entry.end = offsets[1].get<std::uint64_t>();
}

std::string RangeText(const HeaderEntry& entry) {
  return "data_offsets [" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + "]";
}

void CheckRange(const HeaderEntry& entry, std::uint64_t data_bytes, const std::string& where) {
  if (entry.begin > entry.end) {
    RefuseTensor(where, entry.name, RangeText(entry) + " are reversed: begin must not exceed end");
  }
  if (entry.end > data_bytes) {
    RefuseTensor(where, entry.name,
                 RangeText(entry) + " reach beyond the end of the file, which holds " +
                     std::to_string(data_bytes) + " bytes of data (truncated?)");
  }
  std::uint64_t bytes = ByteSize(entry.type);
  bool overflows = false;
  for (const std::int64_t size : entry.shape) {
    overflows |= __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes);
  }
  if (overflows) {
    RefuseTensor(where, entry.name,
                 "the size of shape " + ShapeText(entry.shape) + " overflows 64 bits");
  }
  if (bytes != entry.end - entry.begin) {
    RefuseTensor(where, entry.name,
                 RangeText(entry) + " hold " + std::to_string(entry.end - entry.begin) +
                     " bytes, but dtype " + std::string(Name(entry.type)) + " and shape " +
                     ShapeText(entry.shape) + " take " + std::to_string(bytes));
  }
}

void CheckCover(const std::vector<HeaderEntry>& entries, std::uint64_t data_bytes,
                const std::string& where) {
  std::uint64_t covered = 0;
  const HeaderEntry* previous = nullptr;
  for (const HeaderEntry& entry : entries) {
    if (entry.begin < covered) {
      RefuseTensor(where, entry.name,
                   RangeText(entry) + " overlap those of '" +
                       Printable(previous->name, kNameShown) + "', which end at " +
                       std::to_string(covered));
    }
    if (entry.begin > covered) {
      RefuseTensor(where, entry.name,
                   RangeText(entry) + " leave a gap: the data before them end at " +
                       std::to_string(covered));
    }
    covered = entry.end;
    previous = &entry;
  }
  if (covered != data_bytes) {
    Refuse(where, "the tensors end at byte " + std::to_string(covered) + " of " +
                      std::to_string(data_bytes) + " bytes of data; all must belong to a tensor");
  }
}

}  // namespace

std::vector<HeaderEntry> ParseSafetensorsHeader(std::string_view text, std::uint64_t data_bytes,
                                                const std::string& where) {
  const Json header = ParseObject(text, where);
  std::vector<HeaderEntry> entries;
  for (const auto& [name, object] : header.items()) {
    if (name == "__metadata__") {
      CheckMetadata(object, where);
      continue;
    }
    if (!object.is_object())
      RefuseTensor(where, name, "is " + Shown(object) + ", must be an object");
    HeaderEntry entry;
    entry.name = name;
    entry.type = TypeOf(object, where, name);
    entry.shape = ShapeOf(object, where, name);
    ReadOffsets(object, where, entry);
    CheckRange(entry, data_bytes, where);
    entries.push_back(std::move(entry));
  }
  // Empty tensors have the same offset as the tensor that follows them.
  std::stable_sort(entries.begin(), entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  CheckCover(entries, data_bytes, where);
  return entries;
}

}  // namespace twin::exec
