// A table of times measured at some sizes, interpolated for all sizes.
#pragma once

#include <string>
#include <vector>

#include "sim/cost/fitted_config.h"

namespace twin::sim {

// Linear between the points. Sizes below the first point take the first point's time, and size 0
// takes none. Beyond the last point the time grows by the smallest time per unit of all points: the
// slope of a roofline at the best rate that was measured.
class CostTable {
 public:
  // Throws InputError (usage) naming `name` if there is no point, sizes are not positive and
  // ascending, or a time is negative or not finite.
  CostTable(const std::string& name, std::vector<CostPoint> points);

  // Seconds. Cost: log of the number of points.
  [[nodiscard]] double At(double size) const;

 private:
  std::vector<CostPoint> points_;
  double slope_beyond_;
};

}  // namespace twin::sim
