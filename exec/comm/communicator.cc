#include "exec/comm/communicator.h"

#include <chrono>
#include <sstream>

namespace twin::exec {

CommunicationError LateRankError(std::int32_t rank, const std::string& operation,
                                 std::int32_t missing, Duration limit) {
  std::ostringstream what;
  what << "rank " << missing << " did not come within "
       << std::chrono::duration<double>(limit).count() << " s";
  return {rank, operation, what.str()};
}

}  // namespace twin::exec
