// The values of a template: Python's, as far as templates need them. Immutable, except namespaces.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace twin::text::jinja {

struct TextValue;
struct SequenceValue;
struct DictValue;
class Namespace;
struct Callable;

enum class ValueKind {
  kUndefined,
  kNone,
  kBool,
  kInteger,
  kFloat,
  kText,
  kSequence,
  kDict,
  kNamespace,
  kCallable,
};

// Copies are cheap: they share texts, lists and dicts. A namespace is borrowed from the rendering
// that made it.
class Value {
 public:
  // Undefined: `why` is the message of an operation that needs a value.
  Value() = default;
  static Value Undefined(std::string why);
  static Value None();
  static Value Bool(bool value);
  static Value Integer(std::int64_t value);
  static Value Float(double value);
  // `markup`: marked safe, so that `+` escapes what is added to it.
  static Value Text(std::string text, bool markup = false);
  static Value List(std::vector<Value> items);
  static Value Tuple(std::vector<Value> items);
  static Value Sequence(SequenceValue sequence);
  // A later entry replaces the value of an earlier one with an equal key.
  static Value Dict(std::vector<std::pair<Value, Value>> entries);
  static Value Of(Namespace* space);
  static Value Of(std::shared_ptr<const Callable> callable);

  [[nodiscard]] ValueKind kind() const { return static_cast<ValueKind>(content_.index()); }
  [[nodiscard]] bool is(ValueKind kind) const { return this->kind() == kind; }
  [[nodiscard]] bool is_text() const { return is(ValueKind::kText); }
  [[nodiscard]] bool is_undefined() const { return is(ValueKind::kUndefined); }
  // Python's int: bool is one too.
  [[nodiscard]] bool is_integer() const { return is(ValueKind::kInteger) || is(ValueKind::kBool); }
  [[nodiscard]] bool is_number() const { return is_integer() || is(ValueKind::kFloat); }

  // REQUIRES: the value is of the accessor's kind.
  [[nodiscard]] const std::string& text() const;
  [[nodiscard]] bool is_markup() const;
  [[nodiscard]] bool boolean() const { return std::get<bool>(content_); }
  [[nodiscard]] std::int64_t integer() const;
  // The value of any number, also of a bool.
  [[nodiscard]] double number() const;
  [[nodiscard]] const SequenceValue& sequence() const;
  [[nodiscard]] const DictValue& dict() const;
  [[nodiscard]] Namespace& space() const { return *std::get<Namespace*>(content_); }
  [[nodiscard]] const std::shared_ptr<const Callable>& callable() const;
  // Why an undefined value is undefined.
  [[nodiscard]] std::string why_undefined() const;

  [[nodiscard]] bool Truth() const;
  // Python's name of the type, as in its error messages.
  [[nodiscard]] std::string_view TypeName() const;
  // Bytes that a visit of the whole value reads; 2^62 at most.
  [[nodiscard]] std::uint64_t Weight() const;
  // Levels of lists and dicts; 0 for anything else.
  [[nodiscard]] int Depth() const;

 private:
  struct NoneType {};
  using UndefinedText = std::shared_ptr<const std::string>;
  using Content =
      std::variant<UndefinedText, NoneType, bool, std::int64_t, double,
                   std::shared_ptr<const TextValue>, std::shared_ptr<const SequenceValue>,
                   std::shared_ptr<const DictValue>, Namespace*, std::shared_ptr<const Callable>>;

  explicit Value(Content content) : content_(std::move(content)) {}

  Content content_;
};

struct TextValue {
  std::string text;  // UTF-8
  bool markup = false;
};

enum class SequenceKind {
  kList,
  kTuple,
  kRange,
  kView,       // of a dict: items(), keys(), values(); no indices
  kGenerator,  // result of map, select, items and their like: it can be visited once
};

struct SequenceValue {
  SequenceKind kind = SequenceKind::kList;
  std::vector<Value> items;
  std::string_view view = "";      // of a view: dict_items, dict_keys or dict_values
  mutable bool exhausted = false;  // of a generator
  int depth = 0;
  std::uint64_t weight = 0;

  // True for lists, tuples and ranges, which have a length and indices in Python.
  [[nodiscard]] bool has_indices() const {
    return kind != SequenceKind::kView && kind != SequenceKind::kGenerator;
  }
};

struct DictValue {
  std::vector<std::pair<Value, Value>> entries;          // in order of insertion
  std::unordered_map<std::string, std::size_t> by_text;  // keys that are texts
  int depth = 0;
  std::uint64_t weight = 0;

  // nullptr if absent.
  [[nodiscard]] const Value* Find(std::string_view key) const;
  [[nodiscard]] const Value* Find(const Value& key) const;
};

// An object with attributes: the result of namespace(), and the variable `loop`.
class Namespace {
 public:
  Namespace() = default;
  Namespace(const Namespace&) = delete;
  Namespace& operator=(const Namespace&) = delete;
  virtual ~Namespace() = default;

  [[nodiscard]] virtual std::optional<Value> Get(const std::string& name) const;
  // False if its attributes cannot be set.
  virtual bool Set(const std::string& name, Value value);

 private:
  std::unordered_map<std::string, Value> attributes_;
};

// Python's ==, and its order: -1, 0, 1. Compare() fails for types without an order.
bool Equal(const Value& left, const Value& right);
int Compare(const Value& left, const Value& right);
// Python's `needle in haystack`.
bool Contains(const Value& haystack, const Value& needle);

// The elements that a for loop visits: of a sequence, a dict's keys, a text's characters. Empty
// for an undefined value. Consumes a generator. Fails for values that Python cannot iterate over.
std::vector<Value> Elements(const Value& value);
// Python's len().
std::int64_t Length(const Value& value);

}  // namespace twin::text::jinja
