// The report of a validation: JSON, text tables, and an HTML page.
#pragma once

#include <iosfwd>
#include <string>

#include "apps/validate/validation.h"

namespace twin::run {

// validation.json. Undefined numbers are null.
std::string ValidationJson(const Validation& validation);

// Tables: decisions, metrics with their noise and attribution, steps, parts.
void WriteValidationText(std::ostream& out, const Validation& validation);

// One self-contained page: the tables, and figures: steps predicted against measured, CDFs of the
// latencies, load over time, attribution.
std::string ValidationHtml(const Validation& validation);

}  // namespace twin::run
