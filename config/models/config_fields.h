// Typed access to the fields of one JSON object, with messages that name the field.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace twin {

// Borrows the object, and remembers which fields were asked for. A null value counts as absent,
// except for IsNull(). Every refusal is an InputError (data) that names `where`, the field, its
// value, and the allowed values.
class ConfigFields {
 public:
  ConfigFields(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  [[noreturn]] void Refuse(const std::string& what) const;

  [[nodiscard]] bool Has(const char* field) const { return Find(field) != nullptr; }
  // True for an explicit null, which transformers distinguish from an absent field if the field has
  // a default.
  [[nodiscard]] bool IsNull(const char* field) const;
  // nullptr if absent or null.
  [[nodiscard]] const nlohmann::json* Find(const char* field) const;

  // An integer in [lowest, 2^31).
  [[nodiscard]] std::int32_t Size(const char* field) const;
  // A number of layers, as Size(), which no model has more than 4,096 of.
  [[nodiscard]] std::int32_t LayerCount(const char* field) const;
  [[nodiscard]] std::optional<std::int32_t> OptionalSize(const char* field,
                                                         std::int32_t lowest = 1) const;
  // As OptionalSize(), from 0 on; `absent` without the field.
  [[nodiscard]] std::int32_t Or(const char* field, std::int32_t absent) const {
    return OptionalSize(field, 0).value_or(absent);
  }
  // A finite number above 0.
  [[nodiscard]] double Positive(const char* field) const;
  [[nodiscard]] std::optional<double> OptionalPositive(const char* field) const;
  [[nodiscard]] bool Flag(const char* field, bool absent) const;
  [[nodiscard]] std::optional<std::string> Text(const char* field) const;
  [[nodiscard]] std::string Text(const char* field, const char* absent) const {
    return Text(field).value_or(absent);
  }
  [[nodiscard]] std::optional<ConfigFields> Object(const char* field) const;
  // A list of objects; empty where absent.
  [[nodiscard]] std::vector<ConfigFields> Objects(const char* field) const;
  // A list of one name, number or object a layer. Refused unless it has `layers` items, all of them
  // allowed.
  [[nodiscard]] std::vector<std::string> Names(
      const char* field, std::int32_t layers,
      std::initializer_list<std::string_view> allowed) const;
  [[nodiscard]] std::vector<std::int32_t> Numbers(const char* field, std::int32_t layers,
                                                  std::int32_t highest) const;
  [[nodiscard]] std::vector<ConfigFields> Blocks(const char* field, std::int32_t layers) const;
  // Refuses the first field that is not in `known`, unless its value is neutral.
  void RefuseOthers(std::initializer_list<std::string_view> known) const;
  // Refuses the first field that changes the layers of a model and that nobody has asked for,
  // unless its value is neutral: a reader that does not know it cannot count the model.
  void RefuseUnknownLayers() const;
  // Refuses the first such field that changes the results: executors cannot compute the model.
  void RefuseUnknownResults() const;
  // Counts fields as asked for.
  void Know(std::initializer_list<const char*> fields) const {
    asked_.insert(fields.begin(), fields.end());
  }
  // As the refusal of a field that is not known, by name and value.
  [[noreturn]] void RefuseUnknown(std::string_view field, const nlohmann::json& value) const;
  // One token id, or a list of them; empty where absent.
  [[nodiscard]] std::vector<std::int32_t> TokenIds(const char* field) const;

 private:
  [[noreturn]] void RefuseField(const char* field, const nlohmann::json& value,
                                const std::string& allowed) const;
  [[nodiscard]] const nlohmann::json& List(const char* field, std::int32_t layers) const;
  // nullptr for a field that is neutral or was asked for.
  [[nodiscard]] const nlohmann::json* FindUnasked(const char* field) const;

  const nlohmann::json& object_;
  std::string where_;
  mutable std::set<std::string, std::less<>> asked_;
};

// The value as messages quote it, shortened.
std::string ValueText(const nlohmann::json& value);

// Whether a value switches nothing on: null, false, 0 or empty.
bool IsNeutral(const nlohmann::json& value);

}  // namespace twin
