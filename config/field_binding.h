// Converts config structs to and from messages, with one list of fields for both directions.
//
// Each struct has a `template <class Archive> void Bind(Archive&, Config&)` in namespace twin that
// pairs every field of the message with a member. The build writes it from the schema
// (generate_bindings.cc); hand_bindings.h has the exceptions. FromMessage copies the fields that
// are set and leaves the other members alone; ToMessage sets all fields but those of empty optional
// members.
//
// REQUIRES (CHECKed): the fields exist and have the type of the member.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/any_config.h"
#include "core/check.h"
#include "core/time.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace twin {

// The schema's word for a value of an enumeration.
template <class E>
struct EnumName {
  const char* name;
  E value;
};

template <class E>
using EnumNames = std::initializer_list<EnumName<E>>;

// Borrows the message.
class FromMessage {
 public:
  explicit FromMessage(const google::protobuf::Message& message) : message_(message) {}

  void Value(const char* field, bool& value) const;
  void Value(const char* field, std::int32_t& value) const;
  void Value(const char* field, std::uint32_t& value) const;
  void Value(const char* field, std::int64_t& value) const;
  void Value(const char* field, std::uint64_t& value) const;
  void Value(const char* field, double& value) const;
  void Value(const char* field, std::string& value) const;
  void Value(const char* field, Duration& value) const;  // in seconds
  // A repeated field that is set replaces the whole default.
  void Value(const char* field, std::vector<double>& values) const;
  void Value(const char* field, std::vector<std::string>& values) const;
  void Value(const char* field, std::vector<std::uint32_t>& values) const;

  template <class T>
  void Value(const char* field, std::optional<T>& value) const {
    if (Has(field)) Value(field, value.emplace());
  }

  // The former name of a field, which is bound to the same member after it.
  template <class T>
  void Former(const char* field, T& value) const {
    Value(field, value);
  }

  // Words::kNames<E> pairs the schema's words with the values of an enumeration E.
  template <class Words, class E>
  void Enum(const char* field, E& value) const {
    if (!Has(field)) return;
    const std::string word = EnumWord(field);
    bool known = false;
    for (const EnumName<E>& entry : Words::template kNames<E>) {
      if (word == entry.name) {
        value = entry.value;
        known = true;
      }
    }
    CHECK(known);
  }

  // Words::kNone, where there is one, stands for an empty optional.
  template <class Words, class E>
  void Enum(const char* field, std::optional<E>& value) const {
    if (!Has(field)) return;
    if constexpr (requires { Words::kNone; }) {
      if (EnumWord(field) == Words::kNone) return value.reset();
    }
    Enum<Words>(field, value.emplace());
  }

  template <class T>
  void Nested(const char* field, T& value) const {
    if (!Has(field)) return;
    FromMessage nested(Child(field));
    Bind(nested, value);
  }

  template <class T>
  void Nested(const char* field, std::optional<T>& value) const {
    if (!Has(field)) return;
    // Fields that the message does not name stay as they are.
    if (!value) value.emplace();
    Nested(field, *value);
  }

  template <class T>
  void Nested(const char* field, std::vector<T>& values) const {
    const int size = Size(field);
    if (size > 0) values.clear();
    for (int i = 0; i < size; ++i) {
      FromMessage nested(Element(field, i));
      Bind(nested, values.emplace_back());
    }
  }

  // The member `field` of a oneof; it holds the alternative T.
  template <class T, class... Ts>
  void Choice(const char* field, std::variant<Ts...>& value) const {
    if (!Has(field)) return;
    if (!std::holds_alternative<T>(value)) value.template emplace<T>();
    Nested(field, std::get<T>(value));
  }
  template <class T, class Family>
  void Choice(const char* field, AnyConfig<Family>& value) const {
    if (!Has(field)) return;
    if (value.template If<T>() == nullptr) value = T{};
    Nested(field, value.template Get<T>());
  }

 private:
  [[nodiscard]] bool Has(const char* field) const;
  [[nodiscard]] std::string EnumWord(const char* field) const;
  [[nodiscard]] const google::protobuf::Message& Child(const char* field) const;
  [[nodiscard]] int Size(const char* field) const;
  [[nodiscard]] const google::protobuf::Message& Element(const char* field, int i) const;

  const google::protobuf::Message& message_;
};

// Borrows the message.
class ToMessage {
 public:
  explicit ToMessage(google::protobuf::Message& message) : message_(message) {}

  void Value(const char* field, bool value);
  void Value(const char* field, std::int32_t value);
  void Value(const char* field, std::uint32_t value);
  void Value(const char* field, std::int64_t value);
  void Value(const char* field, std::uint64_t value);
  void Value(const char* field, double value);
  void Value(const char* field, const std::string& value);
  void Value(const char* field, Duration value);
  void Value(const char* field, const std::vector<double>& values);
  void Value(const char* field, const std::vector<std::string>& values);
  void Value(const char* field, const std::vector<std::uint32_t>& values);

  template <class T>
  void Value(const char* field, const std::optional<T>& value) {
    if (value) Value(field, *value);
  }

  template <class T>
  void Former(const char* /*field*/, const T& /*value*/) {}

  template <class Words, class E>
  void Enum(const char* field, E value) {
    bool known = false;
    for (const EnumName<E>& entry : Words::template kNames<E>) {
      if (value == entry.value && !known) {
        SetEnum(field, entry.name);
        known = true;
      }
    }
    CHECK(known);
  }

  template <class Words, class E>
  void Enum(const char* field, const std::optional<E>& value) {
    if (value) {
      Enum<Words>(field, *value);
    } else if constexpr (requires { Words::kNone; }) {
      SetEnum(field, Words::kNone);
    }
  }

  template <class T>
  void Nested(const char* field, T& value) {
    ToMessage nested(MutableChild(field));
    Bind(nested, value);
  }

  template <class T>
  void Nested(const char* field, std::optional<T>& value) {
    if (value) Nested(field, *value);
  }

  template <class T>
  void Nested(const char* field, std::vector<T>& values) {
    for (T& value : values) {
      ToMessage nested(AddElement(field));
      Bind(nested, value);
    }
  }

  template <class T, class... Ts>
  void Choice(const char* field, std::variant<Ts...>& value) {
    if (T* chosen = std::get_if<T>(&value)) Nested(field, *chosen);
  }
  template <class T, class Family>
  void Choice(const char* field, AnyConfig<Family>& value) {
    if (T* const chosen = value.template If<T>()) Nested(field, *chosen);
  }

 private:
  void SetEnum(const char* field, const char* word);
  [[nodiscard]] google::protobuf::Message& MutableChild(const char* field);
  [[nodiscard]] google::protobuf::Message& AddElement(const char* field);

  google::protobuf::Message& message_;
};

}  // namespace twin
