// Templates in the subset of Jinja that chat templates use, rendered as Hugging Face's
// transformers render them: byte for byte what jinja2 3.1.6 makes under their settings.
//
// A template is an untrusted program. It reads the variables it is given, and a clock; it cannot
// change them, and has no files, network or attributes of the program. Limits: 256 KB of template,
// nesting of 64, a million steps, 16 MB of output.
//
// The subset: if, for (with `loop` and a condition), break, continue, set (also of namespaces, and
// as a block), macro, call, filter, generation; inline if, and, or, not, comparisons, in, + - * %
// ~, slices, lists, tuples, dicts. Filters, tests, methods and functions: see the tables in
// builtin.cc and filters.cc. Other constructs are refused when the template is loaded.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "apps/serve/text/template/builtin.h"

namespace twin::text {

class Template {
 public:
  // `name` stands in messages, such as "chat_template.jinja". Throws InputError (usage) that names
  // the line: a template outside the subset, or not in UTF-8.
  Template(std::string_view source, std::string name);
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  // `variables`: an object. Throws InputError (data): the message alone for the template's own
  // raise_exception(message), else one that names the line, and a file without its folder. Can be
  // called from several threads.
  [[nodiscard]] std::string Render(const nlohmann::ordered_json& variables,
                                   const jinja::LocalClock& clock) const;

  // True if a loop visits the parts of a message's content, as `for part in message.content`.
  [[nodiscard]] bool VisitsContentParts() const;

 private:
  struct Tree;

  std::string name_;
  std::unique_ptr<const Tree> tree_;
};

}  // namespace twin::text
