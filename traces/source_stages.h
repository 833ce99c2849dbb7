// Arrival sources made of other sources: streams as sources, merged, limited, held back.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/arrival_source.h"
#include "traces/request_stream.h"

namespace twin {

// The stream's requests at their own arrivals, whatever becomes of them.
std::unique_ptr<ArrivalSource> StreamArrivals(std::unique_ptr<RequestStream> stream);

// All requests of the sources by arrival; at equal times the source that comes first.
std::unique_ptr<ArrivalSource> MergeArrivals(std::vector<std::unique_ptr<ArrivalSource>> sources);

// At most `requests` requests, none at or after `duration`; 0 = no limit.
std::unique_ptr<ArrivalSource> LimitArrivals(std::unique_ptr<ArrivalSource> source,
                                             std::int64_t requests, Duration duration);

// Shows nothing while `in_flight_max` requests are outstanding; one that was held back arrives when
// a place became free. REQUIRES: in_flight_max >= 1.
std::unique_ptr<ArrivalSource> CapInFlight(std::unique_ptr<ArrivalSource> source,
                                           std::int32_t in_flight_max);

}  // namespace twin
