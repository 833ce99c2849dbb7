// Warnings about settings of an experiment that are valid but probably unintended.
#pragma once

#include <string>
#include <vector>

#include "run/deployment.h"

namespace twin::run {

// One line per finding, without a line break, each with the field and the consequence. Draws
// lengths to estimate how many prompts are cut, which takes about a millisecond per class of
// requests; Resolve() therefore does not call it. Throws InputError if a file of lengths is bad.
// `costs` as for Resolve(); null: nothing is shared.
std::vector<std::string> WarningsOf(const Deployment& deployment, CostCache* costs = nullptr);

}  // namespace twin::run
