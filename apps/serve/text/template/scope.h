// Variables of a template while it is evaluated.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/serve/text/template/value.h"

namespace twin::text::jinja {

// A scope reads the variables of the scopes around it and writes its own. A name is borrowed from
// the template.
class Scope {
 public:
  explicit Scope(std::shared_ptr<const Scope> parent) : parent_(std::move(parent)) {}

  void Set(std::string_view name, Value value) {
    for (auto& [present, content] : variables_) {
      if (present == name) {
        content = std::move(value);
        return;
      }
    }
    variables_.emplace_back(name, std::move(value));
  }

  // nullptr if no scope has it.
  [[nodiscard]] const Value* Find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
      for (const auto& [present, content] : scope->variables_) {
        if (present == name) return &content;
      }
    }
    return nullptr;
  }

 private:
  std::shared_ptr<const Scope> parent_;
  std::vector<std::pair<std::string_view, Value>> variables_;
};

}  // namespace twin::text::jinja
