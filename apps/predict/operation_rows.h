// Rows of tables of the kinds in sim/devices/operations/operation_kinds.h.
#pragma once

#include <string>
#include <vector>

#include "core/files/csv.h"
#include "sim/devices/operations/kernel_library.h"
#include "sim/devices/operations/operation_kinds.h"

namespace twin::run {

struct OperationCall {
  sim::KernelLibrary library{};
  std::string variant;
  std::vector<double> shape;
  std::vector<double> call;
};

// The columns without which a table cannot be read.
std::vector<std::string_view> RequiredColumnsOf(const sim::OperationKind& kind);

// Columns that a table has not are 0 (sizes) or bfloat16 (formats); a library is then that of the
// kind's name, or vLLM. Models are taken for the hidden size that decides their sparse attention.
// Throws InputError with file, line and field.
OperationCall ReadOperationCall(const sim::OperationKind& kind, const CsvTable& row);

}  // namespace twin::run
