// Studies in Python: rows of a study that are run here or elsewhere, and the folder that takes
// them.
#pragma once

#include <nanobind/nanobind.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "apps/study/study.h"

namespace twin::python {

// A path, or the text of a file, and which of the two.
using Source = std::pair<std::string, bool>;

run::Study StudyOf(const Source& source, const std::vector<std::string>& changes);

void BindSweeps(nanobind::module_& module);

}  // namespace twin::python
