// Operators, filters, tests, methods and functions of templates.
#pragma once

#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/serve/text/template/failure.h"
#include "apps/serve/text/template/value.h"

namespace twin::text::jinja {

// The local time that strftime_now() prints.
using LocalClock = std::function<std::tm()>;

// Arguments of a call. Bind() moves named ones to their positions.
struct Arguments {
  std::vector<std::optional<Value>> positional = {};
  std::vector<std::pair<std::string, Value>> named = {};

  // nullptr if it was not given.
  [[nodiscard]] const Value* At(std::size_t position) const;
  // The argument, converted as Python does; `absent` if it was not given.
  [[nodiscard]] bool Flag(std::size_t position, bool absent) const;
  [[nodiscard]] std::int64_t Integer(std::size_t position, std::int64_t absent) const;
};

// State of a rendering that builtins and operators use.
struct Machine {
  Budget budget = {};
  const LocalClock* clock = nullptr;
  // Makes a namespace that lives as long as the rendering.
  std::function<Namespace*()> make_namespace = {};
};

// A filter, test, method or function.
struct Builtin {
  std::string_view name;
  // Names of parameters; the first `required` must be given.
  std::vector<std::string_view> parameters;
  std::size_t required = 0;
  // `subject`: the value before | or `is`, or the method's object; undefined for functions.
  Value (*apply)(Machine& machine, const Value& subject, const Arguments& arguments) = nullptr;
  // Takes any arguments, which it checks itself.
  bool variadic = false;
};

// nullptr for a name outside the supported subset. Filters that jinja2 knows by two names are
// found by both.
const Builtin* FindFilter(std::string_view name);
const Builtin* FindTest(std::string_view name);
const Builtin* FindTextMethod(std::string_view name);
const Builtin* FindDictMethod(std::string_view name);
const Builtin* FindFunction(std::string_view name);
// Python's methods of lists and dicts that templates cannot call: most would change their object.
// Python finds such a method before a dict's entry of that name.
bool IsRefusedMethod(ValueKind kind, std::string_view name);
// True for methods that a template may name in a call. append and pop are among them, and fail
// when called, as in Hugging Face's sandbox.
bool IsKnownMethod(std::string_view name);

// Empty if a call with so many arguments and these names fits `builtin`, else what does not.
std::string CheckArguments(const Builtin& builtin, std::size_t positional,
                           const std::vector<std::string_view>& named);
// REQUIRES: CheckArguments() found nothing.
void Bind(const Builtin& builtin, Arguments& arguments);

// Applies a builtin; the work on long values is charged to the budget.
Value Apply(Machine& machine, const Builtin& builtin, const Value& subject,
            const Arguments& arguments);

// A value that a template can call: a macro, a function, a method together with its object.
struct Callable {
  Callable() = default;
  Callable(const Callable&) = delete;
  Callable& operator=(const Callable&) = delete;
  virtual ~Callable() = default;

  virtual Value Call(Machine& machine, Arguments arguments) const = 0;
};

struct BoundBuiltin : Callable {
  BoundBuiltin(const Builtin* what, Value of) : builtin(what), subject(std::move(of)) {}

  Value Call(Machine& machine, Arguments arguments) const override;

  const Builtin* builtin;
  Value subject;  // undefined for functions
};

// object.name and object[key]. An absent one is undefined; of an undefined object, a failure.
Value GetAttribute(const Value& object, const std::string& name);
Value GetItem(const Value& object, const Value& key);

// Python's operators. `operation` is one of + - * %, or of == != < <= > >= in, "not in".
Value Arithmetic(Machine& machine, const Value& left, const std::string& operation,
                 const Value& right);
bool Comparison(Machine& machine, const Value& left, const std::string& operation,
                const Value& right);
// Python's value[begin:end:step]; nullptr where left out.
Value Slice(Machine& machine, const Value& value, const Value* begin, const Value* end,
            const Value* step);

}  // namespace twin::text::jinja
