#include "record/request_rows.h"

#include <ostream>
#include <string>

#include "record/csv_columns.h"
#include "record/row_cells.h"

namespace twin {

RequestRows::RequestRows(std::ostream& out, bool boundary) : out_(out), boundary_(boundary) {
  std::string header = HeaderLine(RequestColumns());
  if (boundary_) {
    header.back() = ',';  // in place of the line break
    header += HeaderLine(BoundaryColumns());
  }
  out_ << header;
}

void RequestRows::Write(const RequestLife& life) {
  AddRequestCells(line_, life, boundary_);
  line_.WriteTo(out_);
}

}  // namespace twin
