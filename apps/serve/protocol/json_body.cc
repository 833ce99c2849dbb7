#include "apps/serve/protocol/json_body.h"

#include <fmt/format.h>

#include <limits>
#include <string>
#include <utility>

namespace twin::serve {
namespace {

using Json = nlohmann::ordered_json;

// Receives the events of nlohmann's parser; returning false ends the parsing.
class BodyBuilder {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  bool null() { return Add(nullptr); }
  bool boolean(bool value) { return Add(value); }
  bool number_integer(number_integer_t value) {
    return InIds() ? RefuseId(fmt::to_string(value)) : Add(value);
  }
  bool number_unsigned(number_unsigned_t value) { return InIds() ? AddId(value) : Add(value); }
  bool number_float(number_float_t value, const string_t& text) {
    return InIds() ? RefuseId(text.substr(0, 40)) : Add(value);
  }
  bool string(string_t& value) { return Add(std::move(value)); }
  bool binary(binary_t& /*value*/) { return false; }

  bool start_object(std::size_t /*size*/) { return Open(Json::object()); }
  bool end_object() { return Close(); }
  bool key(string_t& name) {
    key_ = std::move(name);
    return true;
  }
  bool start_array(std::size_t /*size*/) {
    if (open_.size() == 1 && (key_ == "prompt" || key_ == "tokens")) {
      list_key_ = key_;
      list_depth_ = 1;
      body.id_lists.reset();
      body.nested = false;
    } else if (list_depth_ == 1) {
      if (body.id_lists && !body.nested) return Mixed();
      if (!open_.back()->empty()) return Mixed();
      if (!body.id_lists) body.id_lists.emplace();
      body.nested = true;
      body.id_lists->emplace_back();
      list_depth_ = 2;
      return true;
    } else if (list_depth_ == 2) {
      return Mixed();
    }
    return Open(Json::array());
  }
  bool end_array() {
    if (list_depth_ == 2) {
      list_depth_ = 1;
      return true;
    }
    list_depth_ = 0;
    return Close();
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) {
    return Fail(ApiErrorKind::kJson,
                fmt::format("the body is not valid JSON: unexpected input at byte {}", position));
  }

  bool Fail(ApiErrorKind kind, std::string message, std::string param = "") {
    if (!error) error = ApiError{kind, std::move(message), std::move(param)};
    return false;
  }

  JsonBody body;
  std::optional<ApiError> error;

 private:
  // True within the list of "prompt" or "tokens", or in a list inside it.
  [[nodiscard]] bool InIds() const { return list_depth_ > 0; }

  bool Mixed() {
    return Fail(ApiErrorKind::kSchema,
                list_key_ +
                    " must be a text, a list of texts, a list of token ids or a list of "
                    "such lists, without mixing them",
                list_key_);
  }

  bool RefuseId(const std::string& text) {
    return Fail(ApiErrorKind::kSchema,
                fmt::format("{} is no token id; allowed: whole numbers from 0", text), list_key_);
  }

  bool AddId(number_unsigned_t value) {
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<std::int32_t>::max())) {
      return RefuseId(fmt::to_string(value));
    }
    if (list_depth_ == 1) {
      if (body.nested || !open_.back()->empty()) return Mixed();
      if (!body.id_lists) body.id_lists.emplace(1);
    }
    body.id_lists->back().push_back(static_cast<std::int32_t>(value));
    return true;
  }

  template <typename Value>
  bool Add(Value value) {
    // Besides ids, such a list may have texts alone.
    if (InIds() && (list_depth_ == 2 || body.id_lists || !std::is_same_v<Value, string_t>)) {
      return Mixed();
    }
    return Place(Json(std::move(value))) != nullptr;
  }

  Json* Place(Json value) {
    if (++values_ > kJsonValuesMax) {
      Fail(ApiErrorKind::kJson,
           fmt::format("the body has more than {} values, the limit", kJsonValuesMax));
      return nullptr;
    }
    if (open_.empty()) {
      if (!value.is_object()) {
        Fail(ApiErrorKind::kSchema, "the body must be a JSON object");
        return nullptr;
      }
      body.fields = std::move(value);
      return &body.fields;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    if (parent.size() >= kJsonKeysMax) {
      Fail(ApiErrorKind::kJson,
           fmt::format("an object has more than {} keys, the limit", kJsonKeysMax));
      return nullptr;
    }
    // The key was given before with a list of ids, and now has another value.
    if (open_.size() == 1 && key_ == list_key_ && list_depth_ != 1) body.id_lists.reset();
    return &(parent[key_] = std::move(value));
  }

  bool Open(Json value) {
    if (open_.size() >= kJsonDepthMax) {
      return Fail(ApiErrorKind::kJson,
                  fmt::format("the body is nested deeper than {}, the limit", kJsonDepthMax));
    }
    if (InIds() && value.is_object()) return Mixed();
    Json* placed = Place(std::move(value));
    if (placed == nullptr) return false;
    open_.push_back(placed);
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  std::vector<Json*> open_;  // objects and lists from the outermost one in
  std::string key_;
  std::string list_key_;  // the field that is read as ids
  int list_depth_ = 0;    // 1 inside its list, 2 inside a list of that
  int values_ = 0;
};

}  // namespace

std::variant<JsonBody, ApiError> ReadJsonBody(std::string_view text) {
  BodyBuilder builder;
  if (Json::sax_parse(text, &builder) && !builder.error) return std::move(builder.body);
  if (!builder.error) builder.Fail(ApiErrorKind::kJson, "the body is not valid JSON");
  return std::move(*builder.error);
}

}  // namespace twin::serve
