#include "apps/serve/text/tokenizer_json.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>

#include "core/input_error.h"
#include "core/printable.h"

namespace twin::text {

namespace {

using nlohmann::json;

constexpr std::size_t kJsonDepthMax = 64;

// Builds the tree, but puts the entries of model.vocab and model.merges into vectors. A tree of
// them would need ten times their size and the time to walk it.
class TokenizerJsonHandler : public nlohmann::json_sax<json> {
 public:
  TokenizerJsonHandler(TokenizerJson& result, const std::string& where)
      : result_(result), where_(where) {}

  bool null() override { return Value(nullptr); }
  bool boolean(bool value) override { return Value(value); }
  bool number_integer(number_integer_t value) override { return Value(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    return Value(value);
  }
  bool binary(binary_t& /*value*/) override { return false; }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kVocab) return Value(value);
    if (value > static_cast<number_unsigned_t>(kTokenIdMax)) {
      Refuse(fmt::format("model.vocab has the id {}; allowed are 0 to {}", value, kTokenIdMax));
    }
    result_.vocab.emplace_back(std::move(key_), static_cast<TokenId>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMerges) {
      const std::size_t space = value.find(' ');
      if (space == std::string::npos || value.find(' ', space + 1) != std::string::npos) {
        RefuseMerge();
      }
      result_.merges.emplace_back(value.substr(0, space), value.substr(space + 1));
      return true;
    }
    if (place_ == Place::kMerge) {
      pair_.push_back(std::move(value));
      return true;
    }
    return Value(std::move(value));
  }

  bool key(string_t& value) override {
    key_ = std::move(value);
    return true;
  }

  bool start_object(std::size_t /*size*/) override {
    Deeper();
    if (place_ == Place::kTree && depth_ == 3 && InModel() && key_ == "vocab") {
      if (!result_.vocab.empty()) Refuse("model.vocab appears twice");
      place_ = Place::kVocab;
      return true;
    }
    return Open(json::object());
  }

  bool end_object() override {
    --depth_;
    if (place_ == Place::kVocab) {
      place_ = Place::kTree;
      return true;
    }
    return Close();
  }

  bool start_array(std::size_t /*size*/) override {
    Deeper();
    if (place_ == Place::kMerges) {
      place_ = Place::kMerge;
      pair_.clear();
      return true;
    }
    if (place_ == Place::kTree && depth_ == 3 && InModel() && key_ == "merges") {
      if (!result_.merges.empty()) Refuse("model.merges appears twice");
      place_ = Place::kMerges;
      return true;
    }
    return Open(json::array());
  }

  bool end_array() override {
    --depth_;
    if (place_ == Place::kMerge) {
      if (pair_.size() != 2) RefuseMerge();
      result_.merges.emplace_back(std::move(pair_[0]), std::move(pair_[1]));
      place_ = Place::kMerges;
      return true;
    }
    if (place_ == Place::kMerges) {
      place_ = Place::kTree;
      return true;
    }
    return Close();
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const json::exception& /*error*/) override {
    Refuse(fmt::format("is not JSON: error at byte {}", position));
  }

 private:
  enum class Place { kTree, kVocab, kMerges, kMerge };

  [[noreturn]] void Refuse(const std::string& what) const {
    throw InputError(InputError::Kind::kData, where_, what);
  }
  [[noreturn]] void RefuseMerge() const {
    Refuse(
        fmt::format("model.merges[{}] must be \"a b\" or [\"a\", \"b\"]", result_.merges.size()));
  }

  void Deeper() {
    if (++depth_ > kJsonDepthMax) {
      Refuse(fmt::format("nests deeper than {} levels, the most allowed", kJsonDepthMax));
    }
  }

  [[nodiscard]] bool InModel() const { return keys_.size() == 2 && keys_[1] == "model"; }

  json& Add(json value) {
    if (open_.empty()) return result_.rest = std::move(value);
    json& parent = *open_.back();
    if (parent.is_object()) return parent[key_] = std::move(value);
    parent.push_back(std::move(value));
    return parent.back();
  }

  bool Value(json value) {
    if (place_ == Place::kVocab) {
      Refuse(fmt::format("model.vocab: the id of '{}' must be an integer from 0 to {}",
                         Printable(key_), kTokenIdMax));
    }
    if (place_ != Place::kTree) RefuseMerge();
    Add(std::move(value));
    return true;
  }

  bool Open(json value) {
    if (place_ == Place::kVocab) {
      Refuse(fmt::format("model.vocab: the id of '{}' must be an integer", Printable(key_)));
    }
    if (place_ != Place::kTree) RefuseMerge();
    // Pointers into lists stay valid: a list grows only while none of its elements is open.
    open_.push_back(&Add(std::move(value)));
    keys_.push_back(key_);
    return true;
  }

  bool Close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  TokenizerJson& result_;
  const std::string& where_;
  Place place_ = Place::kTree;
  std::size_t depth_ = 0;
  std::string key_;
  std::vector<json*> open_;
  std::vector<std::string> keys_;  // of the open values
  std::vector<std::string> pair_;
};

}  // namespace

TokenizerJson ReadTokenizerJson(std::string_view text, const std::string& where) {
  if (text.size() > kTokenizerJsonBytesMax) {
    throw InputError(
        InputError::Kind::kData, where,
        fmt::format("has {} bytes; allowed are {}", text.size(), kTokenizerJsonBytesMax));
  }
  TokenizerJson result;
  TokenizerJsonHandler handler(result, where);
  json::sax_parse(text.begin(), text.end(), &handler);
  return result;
}

}  // namespace twin::text
