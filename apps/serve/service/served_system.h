// The worlds that a service can run in, with everything that they need.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "apps/serve/service/answers.h"
#include "apps/serve/service/emulated_answers.h"
#include "apps/serve/service/serving_engine.h"
#include "core/time.h"
#include "run/deployment.h"
#include "run/provenance.h"
#include "run/record/summary.h"
#include "run/run_control.h"
#include "run/run_files.h"
#include "sched/world.h"

namespace twin::run {

// A model that is ready to be served. Cancel(), Wake(), Stop() and now() may be called from any
// thread, once Start() has returned.
class ServedSystem {
 public:
  virtual ~ServedSystem() = default;

  [[nodiscard]] virtual const Deployment& deployment() const = 0;
  // The description for Service::model().
  [[nodiscard]] virtual ServedModel model() const = 0;
  // Null if the model is real.
  [[nodiscard]] virtual const EmulatedModel* emulated() const = 0;

  // Makes the world, whose time zero is now. Borrows the source and the answers. `directory` and
  // `files` are null if nothing is written.
  virtual World& Start(ArrivalSource& source, Answers& answers, const RunDirectory* directory,
                       const RunFiles* files) = 0;
  // Called on the thread that runs the world, before it begins.
  virtual void OnWorldThread() {}

  virtual void Cancel(RequestId id, bool answered) = 0;
  virtual void Wake() = 0;
  virtual void Stop() = 0;
  [[nodiscard]] virtual TimePoint now() const = 0;
  // After the world has ended: true if Stop() ended it before everything was served.
  [[nodiscard]] virtual bool stopped_early() const = 0;

  // For emulated worlds, on the world's thread; other worlds are never late.
  [[nodiscard]] virtual Duration lateness() const { return Duration{0}; }
  [[nodiscard]] virtual RunListener* lateness_meter() { return nullptr; }
  [[nodiscard]] virtual std::int64_t late_steps() const { return 0; }

  // After the world has ended: its additions to the summary and to the provenance.
  virtual Summary Finish() = 0;
  [[nodiscard]] virtual std::optional<RealProvenance> provenance() const { return std::nullopt; }
};

// Throws as StartServing.
std::unique_ptr<ServedSystem> MakeServedSystem(const ExperimentConfig& config,
                                               const ServingOptions& options, RunControl& control);

}  // namespace twin::run
