// Chat templates of common model families, for models that bring none.
#pragma once

#include <string>
#include <string_view>

namespace twin::text {

// The names of all templates: "chatml, llama2, ...".
std::string NamesOfTemplates();

// The template of that name. Throws InputError (usage) for an unknown one.
std::string_view NamedTemplate(std::string_view name);

}  // namespace twin::text
