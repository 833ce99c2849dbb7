// Reads the fields of a JSON object with their types and ranges, and remembers unread fields.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/serve/protocol/api_error.h"

namespace twin::serve {

// A field that is null counts as absent. After a wrong field the reader notes an error and goes on,
// so that a client learns of all errors at once.
class FieldReader {
 public:
  using Json = nlohmann::ordered_json;

  // `prefix` stands in front of the names in errors, "stream_options."; `object` must outlive the
  // reader and be an object.
  explicit FieldReader(const Json& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)) {}

  // Null if absent.
  const Json* Find(std::string_view name);

  std::optional<bool> Boolean(std::string_view name);
  std::optional<std::int64_t> Integer(std::string_view name, std::int64_t min, std::int64_t max);
  // In [min, max]. `open`: both ends excluded.
  std::optional<double> Number(std::string_view name, double min, double max, bool open = false);
  std::optional<std::string> Text(std::string_view name);
  // A text, or a list of at most `count_max` texts.
  std::vector<std::string> Texts(std::string_view name, std::size_t count_max);
  std::vector<std::int32_t> Ids(std::string_view name, std::size_t count_max);

  // Accepts fields without effect. A given field becomes a warning unless it is false or empty.
  void Ignore(std::initializer_list<std::string_view> names);
  // Accepts a field without effect. It becomes a warning unless it is `inert`.
  void IgnoreUnless(std::string_view name, double inert);
  // Refuses the field if it is given and neither false nor empty.
  void Refuse(std::string_view name, std::string_view why);
  // Turns fields that were not read into warnings.
  void IgnoreRest();

  void Fail(ApiErrorKind kind, std::string_view name, std::string message);
  // The first error, with the messages of all (ten at most).
  [[nodiscard]] std::optional<ApiError> error() const;
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  void Warn(std::string_view name) { warnings_.push_back(prefix_ + std::string(name)); }
  // Takes over the errors and warnings of a reader of an inner object.
  void Take(const FieldReader& inner);

 private:
  void FailType(std::string_view name, const Json& value, std::string_view allowed);

  const Json& object_;
  std::string prefix_;
  std::set<std::string, std::less<>> known_;
  std::vector<ApiError> errors_;
  std::size_t error_count_ = 0;
  std::vector<std::string> warnings_;
};

}  // namespace twin::serve
