// Values that a template can call: macros, methods of an object, functions.
#pragma once

#include <string>
#include <utility>

#include "apps/serve/text/template/builtin.h"
#include "apps/serve/text/template/value.h"

namespace twin::text::jinja {

struct Callable {
  Callable() = default;
  Callable(const Callable&) = delete;
  Callable& operator=(const Callable&) = delete;
  virtual ~Callable() = default;

  virtual Value Call(Machine& machine, Arguments arguments) const = 0;
};

// A function, or a method together with its object.
struct BoundBuiltin : Callable {
  BoundBuiltin(const Builtin* what, Value of) : builtin(what), subject(std::move(of)) {}

  Value Call(Machine& machine, Arguments arguments) const override;

  const Builtin* builtin;
  Value subject;
};

}  // namespace twin::text::jinja
