#include "run/record/request_rows.h"

#include <ostream>

#include "run/record/row_cells.h"

namespace twin {

RequestRows::RequestRows(std::ostream& out, const FurtherColumns& further)
    : out_(out), further_(further) {
  out_ << HeaderLine(RequestColumns(further));
}

void RequestRows::Write(const RequestLife& life) {
  AddRequestCells(line_, life, further_);
  line_.WriteTo(out_);
}

}  // namespace twin
