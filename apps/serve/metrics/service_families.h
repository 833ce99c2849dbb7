// Metrics that are read from the state of the service.
#pragma once

#include <prometheus/labels.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "apps/serve/http/http_server.h"
#include "apps/serve/service/service.h"

namespace twin::serve {

// vLLM's gauges and counters of the engine. `labels` go on each sample.
std::vector<prometheus::MetricFamily> ServiceFamilies(const run::ServedModel& model,
                                                      const run::ServiceState& state,
                                                      const prometheus::Labels& labels);

// TGI's gauges, which have no labels. REQUIRES: model.tgi.
std::vector<prometheus::MetricFamily> TgiFamilies(const run::ServedModel& model,
                                                  const run::ServiceState& state);

// Gauges and counters of the connections and of this process.
std::vector<prometheus::MetricFamily> ProcessFamilies(const HttpCounts& http);

}  // namespace twin::serve
