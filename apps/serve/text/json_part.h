// Typed access to the fields of one part of a tokenizer.json, with messages that name the field.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace twin::text {

// Whether `value` is the text `text`. nlohmann's value == "text" allocates within noexcept, which
// ends the program where there is no memory; this allocates nothing.
bool IsText(const nlohmann::ordered_json& value, std::string_view text);

// One JSON object within a file, for example "decoder.decoders[2]". Borrows the object. Every
// refusal is an InputError (data): file, field, what it is, what it must be.
class JsonPart {
 public:
  // Refuses values that are not objects, and objects nested some dozens of levels deep.
  JsonPart(const nlohmann::json& object, std::string file, std::string path);

  [[noreturn]] void Refuse(std::string_view what) const;
  // "FIELD is VALUE; ALLOWED"
  [[noreturn]] void RefuseField(std::string_view field, std::string_view allowed) const;

  // False if the field is absent or null.
  [[nodiscard]] bool Has(std::string_view field) const { return Find(field) != nullptr; }
  [[nodiscard]] const nlohmann::json* Find(std::string_view field) const;

  [[nodiscard]] std::string Text(std::string_view field) const;
  [[nodiscard]] std::string Text(std::string_view field, std::string_view absent) const;
  [[nodiscard]] bool Flag(std::string_view field, bool absent) const;
  // An integer from 0 to `highest`.
  [[nodiscard]] std::int64_t Integer(std::string_view field, std::int64_t highest) const;
  [[nodiscard]] JsonPart Object(std::string_view field) const;
  // The objects of a list.
  [[nodiscard]] std::vector<JsonPart> Objects(std::string_view field) const;

  // Refuses this part if it is one step more than the 64 that a text may take. `steps`: with it.
  void RequireFew(std::size_t steps) const;

  // Refuses `field` unless it is absent, null, false, 0, "" or empty: a feature that is not
  // supported must be off.
  void RequireOff(std::string_view field) const;

  [[nodiscard]] const nlohmann::json& object() const { return *object_; }
  // "FILE: PATH.FIELD", for messages of parsers of single values.
  [[nodiscard]] std::string Where(std::string_view field) const;

 private:
  static constexpr std::size_t kStepsMax = 64;

  [[nodiscard]] std::string PathOf(std::string_view field) const;
  const nlohmann::json& Required(std::string_view field) const;

  const nlohmann::json* object_;
  std::string file_;
  std::string path_;
};

// A value as it appears in messages: short, printable.
std::string Shown(const nlohmann::json& value);

}  // namespace twin::text
