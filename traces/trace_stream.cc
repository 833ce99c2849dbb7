#include "traces/trace_stream.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/hash.h"
#include "core/input_error.h"
#include "traces/field.h"
#include "traces/trace_format.h"

namespace twin {
namespace {

class CutTrace final : public RequestStream {
 public:
  CutTrace(const TraceConfig& config, std::unique_ptr<TraceReader> reader,
           const RequestRules& rules, TraceReport* report)
      : config_(config), reader_(std::move(reader)), rules_(rules), report_(report) {}

  bool Next(TracedRequest& request) override {
    while (!NextOfPass(request)) {
      if (emitted_ == 0) {
        throw InputError(InputError::Kind::kUsage, "workload.trace",
                         "no request of " + config_.path + " lies within start and duration");
      }
      if (pass_ == config_.repeat) return false;
      BeginNextPass();
    }
    ++emitted_;
    ++emitted_of_pass_;
    if (pass_ > 1) RenameContent(request);
    rules_.ApplyLimit(request);
    rules_.ApplyPrediction(request);
    return true;
  }

 private:
  bool ReadNext(TracedRequest& request) {
    const bool found = reader_->Next(request);
    if (pass_ == 1 && report_ != nullptr) {
      report_->counts = reader_->counts();
      report_->may_be_cut = !found && reader_->may_be_cut();
    }
    return found;
  }

  bool NextOfPass(TracedRequest& request) {
    while (ReadNext(request)) {
      if (!reader_->has_arrivals()) return true;
      const Duration arrival = request.arrival.time_since_epoch();
      if (arrival < config_.start) continue;
      if (!origin_) origin_ = config_.start > Duration::zero() ? config_.start : arrival;
      if (config_.duration > Duration::zero() && arrival - *origin_ >= config_.duration) {
        return false;
      }
      request.arrival = offset_ + Scaled(arrival - *origin_);
      CheckArrival(request.arrival);
      if (emitted_of_pass_ == 0) first_ = request.arrival;
      last_ = request.arrival;
      return true;
    }
    return false;
  }

  [[nodiscard]] Duration Scaled(Duration arrival) const {
    if (config_.rate_scale == 1) return arrival;
    const double ns = static_cast<double>(arrival.count()) / config_.rate_scale;
    return DurationFromNanoseconds(std::min(ns, 5e18));  // CheckArrival refuses what is cut
  }

  void CheckArrival(TimePoint arrival) const {
    if (arrival.time_since_epoch() <= kArrivalMax) return;
    throw InputError(InputError::Kind::kUsage, "workload.trace",
                     "arrivals pass 126 years; allowed: a larger rate_scale or fewer repeats");
  }

  void BeginNextPass() {
    const Duration span = last_ - first_;
    offset_ += span;
    if (emitted_of_pass_ > 1) offset_ += span / (emitted_of_pass_ - 1);
    CheckArrival(offset_);
    emitted_of_pass_ = 0;
    ++pass_;
    reader_ = OpenTrace(config_.path, config_.format, config_.read);
  }

  void RenameContent(TracedRequest& request) const {
    const auto salt = static_cast<std::uint64_t>(pass_);
    for (std::uint64_t& chunk : request.prefix_chunks) chunk = MixWords(chunk, salt);
    if (request.session != 0) request.session = MixWords(request.session, salt);
  }

  TraceConfig config_;
  std::unique_ptr<TraceReader> reader_;
  RequestRules rules_;
  TraceReport* report_;
  std::int32_t pass_ = 1;
  std::int64_t emitted_ = 0;
  std::int64_t emitted_of_pass_ = 0;
  std::optional<Duration> origin_;  // of the trace's clock: where the run begins
  TimePoint offset_ = kTimeZero;
  TimePoint first_ = kTimeZero;
  TimePoint last_ = kTimeZero;
};

}  // namespace

TraceStream OpenTraceStream(const TraceConfig& config, const RequestRules& rules,
                            TraceReport* report) {
  std::unique_ptr<TraceReader> reader = OpenTrace(config.path, config.format, config.read);
  const bool has_arrivals = reader->has_arrivals();
  return {std::make_unique<CutTrace>(config, std::move(reader), rules, report), has_arrivals};
}

}  // namespace twin
