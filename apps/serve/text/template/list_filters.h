// Filters that visit the elements of a value.
#pragma once

#include <vector>

#include "apps/serve/text/template/builtin.h"

namespace twin::text::jinja {

const std::vector<Builtin>& ListFilters();

}  // namespace twin::text::jinja
