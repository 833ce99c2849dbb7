#include "traces/measured_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "core/input_error.h"
#include "core/number_text.h"

namespace twin {
namespace {

constexpr Duration kClockSkew = std::chrono::microseconds(100);
constexpr Duration kOnePiece = std::chrono::microseconds(1);  // of rounded times
constexpr double kSlackShare = 0.02;
constexpr double kSlackMs = 10;
constexpr const char* kOneClock = "times that rise, on one clock";

bool Agree(double a, double b, double slack) {
  return std::abs(a - b) <= slack + kSlackShare * std::max(std::abs(a), std::abs(b));
}

std::string Ms(Duration time) { return fmt::format("{:.6g} ms", Milliseconds(time)); }

// Rules for one request.
class RequestRule {
 public:
  RequestRule(const std::string& path, std::size_t number, BenchmarkRequest& request)
      : path_(path), number_(number), request_(request) {}

  void Apply(bool lists_gaps) {
    RequireForward();
    RequireGaps();
    DropUnmeasured();
    RequireSum(lists_gaps);
    RequireEnd();
    const bool no_gap = lists_gaps && request_.gaps.empty();
    request_.one_piece = request_.output_tokens > 1 && request_.ttft &&
                         (no_gap || (request_.e2e && *request_.e2e - *request_.ttft <= kOnePiece));
  }

 private:
  [[noreturn]] void Refuse(const std::string& what, const std::string& allowed) const {
    throw InputError(InputError::Kind::kData, path_,
                     fmt::format("request {}: {}; allowed: {}", number_, what, allowed));
  }

  // 0 for a time that is negative by no more than clocks differ.
  void Raise(Duration& time, const std::function<std::string()>& what) const {
    if (time >= Duration{0}) return;
    if (time < -kClockSkew) Refuse(what(), kOneClock);
    time = Duration{0};
  }

  void RequireForward() {
    std::optional<Duration>& ttft = request_.ttft;
    std::optional<Duration>& e2e = request_.e2e;
    if (ttft) {
      Raise(*ttft,
            [&] { return fmt::format("its first token comes {} before it was sent", Ms(-*ttft)); });
    }
    if (e2e)
      Raise(*e2e, [&] { return fmt::format("its answer ends {} before it was sent", Ms(-*e2e)); });
    if (ttft && e2e && *e2e > Duration{0}) {
      Duration rest = *e2e - *ttft;
      Raise(rest, [&] {
        return fmt::format("its first token comes after {}, its last one after {}", Ms(*ttft),
                           Ms(*e2e));
      });
      *e2e = *ttft + rest;
    }
    if (request_.waiting && ttft && *ttft > Duration{0}) {
      Duration rest = *ttft - *request_.waiting;
      Raise(rest, [&] {
        return fmt::format("it waits for {}, but its first token comes after {}",
                           Ms(*request_.waiting), Ms(*ttft));
      });
    }
    for (Duration& gap : request_.gaps) {
      Raise(gap,
            [&] { return fmt::format("a token comes {} before the one before it", Ms(-gap)); });
    }
  }

  void RequireGaps() const {
    const std::size_t most = static_cast<std::size_t>(std::max(request_.output_tokens - 1, 0));
    if (request_.gaps.size() <= most) return;
    Refuse(
        fmt::format("has {} gaps between {} tokens", request_.gaps.size(), request_.output_tokens),
        fmt::format("at most {}", most));
  }

  void DropUnmeasured() {
    for (std::optional<Duration>* time : {&request_.ttft, &request_.e2e, &request_.stated_e2e}) {
      if (*time == Duration{0}) time->reset();
    }
  }

  void RequireSum(bool lists_gaps) const {
    if (!request_.ttft || !request_.e2e || (request_.gaps.empty() && !lists_gaps)) return;
    if (request_.output_tokens < 2) return;  // what follows the only token is no gap
    Duration sum = *request_.ttft;
    for (const Duration gap : request_.gaps) sum += gap;
    if (Agree(Milliseconds(sum), Milliseconds(*request_.e2e), kSlackMs)) return;
    Refuse(fmt::format("its first token after {} and the gaps behind it add up to {}, its latency "
                       "is {}",
                       Ms(*request_.ttft), Ms(sum), Ms(*request_.e2e)),
           "times that agree within 2 % and 10 ms");
  }

  void RequireEnd() {
    const std::optional<Duration> stated = std::exchange(request_.stated_e2e, std::nullopt);
    if (!stated || !request_.e2e) return;
    if (Agree(Milliseconds(*stated), Milliseconds(*request_.e2e), kSlackMs)) return;
    Refuse(fmt::format("its latency is {} by one of its numbers, {} by another", Ms(*request_.e2e),
                       Ms(*stated)),
           "times that agree within 2 % and 10 ms");
  }

  const std::string& path_;
  std::size_t number_;
  BenchmarkRequest& request_;
};

// Rules for the totals of a run.
class TotalsRule {
 public:
  TotalsRule(const std::string& path, BenchmarkRun& run) : path_(path), run_(run) {}

  void Apply() {
    for (const auto& [name, value] : run_.totals) {
      if (!std::isfinite(value) || value < 0) RefuseTotal(name, "a number from 0 on");
    }
    for (const char* latency : kLatencies) RequireOrder(latency);
    RequireLongerEnds();
    RequireRates();
    if (!run_.requests.empty()) RequireRequests();
    for (const auto& [name, histogram] : run_.histograms) RequireWhole(name, histogram);
  }

 private:
  static constexpr std::array kLatencies = {"ttft", "tpot", "itl", "e2el"};

  [[nodiscard]] std::optional<double> Find(const std::string& name) const {
    const auto found = run_.totals.find(name);
    return found == run_.totals.end() ? std::nullopt : std::optional(found->second);
  }
  [[noreturn]] void RefuseTotal(const std::string& name, const std::string& allowed) const {
    throw InputError(InputError::Kind::kData, path_,
                     fmt::format("{}: found {}; allowed: {}", name,
                                 ShortestText(run_.totals.at(name)), allowed));
  }
  static std::string Key(const char* statistic, std::string_view latency) {
    return fmt::format("{}_{}_ms", statistic, latency);
  }

  // Percentiles rise. A mean of 0 is a tool's word for nothing.
  void RequireOrder(const char* latency) {
    if (Find(Key("mean", latency)) == 0.0) {
      for (const char* statistic : {"mean", "p50", "p90", "p99"}) {
        run_.totals.erase(Key(statistic, latency));
      }
    }
    std::string lower;
    for (const char* statistic : {"p50", "p90", "p99"}) {
      const std::string name = Key(statistic, latency);
      const std::optional<double> value = Find(name);
      if (!value) continue;
      if (!lower.empty() && *value < *Find(lower) * (1 - 1e-9)) {
        RefuseTotal(name, fmt::format("at least {}, {}", lower, ShortestText(*Find(lower))));
      }
      lower = name;
    }
  }

  // No answer ends before its first token; histograms may count other requests for either.
  void RequireLongerEnds() const {
    const auto firsts = run_.histograms.find("ttft");
    const auto ends = run_.histograms.find("e2el");
    if (firsts != run_.histograms.end() && ends != run_.histograms.end() &&
        firsts->second.count != ends->second.count) {
      return;
    }
    for (const char* statistic : {"mean", "p50", "p90", "p99"}) {
      const std::optional<double> first = Find(Key(statistic, "ttft"));
      const std::optional<double> last = Find(Key(statistic, "e2el"));
      if (!first || !last || *last >= *first || Agree(*first, *last, 0)) continue;
      RefuseTotal(Key(statistic, "e2el"),
                  fmt::format("at least {}, {}", Key(statistic, "ttft"), ShortestText(*first)));
    }
  }

  void RequireRates() const {
    const std::optional<double> duration = Find(kDurationTotal);
    if (!duration || !(*duration > 0)) return;
    for (const auto& [rate, count] : {std::pair("request_throughput", "completed"),
                                      std::pair("output_throughput", "total_output_tokens")}) {
      const std::optional<double> stated = Find(rate);
      const std::optional<double> total = Find(count);
      if (!stated || !total || Agree(*stated, *total / *duration, 0)) continue;
      RefuseTotal(rate, fmt::format("{} / {} = {:.6g}, within 2 %", count, kDurationTotal,
                                    *total / *duration));
    }
  }

  // The sum over the requests that completed.
  template <class F>
  double Sum(F value) const {
    double sum = 0;
    for (const BenchmarkRequest& request : run_.requests) {
      if (request.completed) sum += value(request);
    }
    return sum;
  }

  // The total is the requests' within `share` of it.
  void RequireSum(const char* name, double of_requests, double share) const {
    const std::optional<double> stated = Find(name);
    if (!stated || std::abs(*stated - of_requests) <= share * of_requests) return;
    RefuseTotal(name, fmt::format("{}, that of the file's {} requests", ShortestText(of_requests),
                                  run_.requests.size()));
  }

  void RequireRequests() const {
    constexpr double kTokenShare = 0.01;
    const auto without = std::ranges::count(run_.requests, true, &BenchmarkRequest::without_output);
    const auto failed = static_cast<double>(run_.failed() - without);
    RequireSum("completed", static_cast<double>(run_.requests.size()) - failed, 0);
    RequireSum("failed", failed, 0);
    RequireSum("total_input_tokens", Sum([](const auto& r) { return double(r.prompt_tokens); }),
               kTokenShare);
    RequireSum("total_output_tokens", Sum([](const auto& r) { return double(r.output_tokens); }),
               kTokenShare);
    constexpr double kMeanSlackMs = 1;
    RequireMean("ttft", kMeanSlackMs, [](const BenchmarkRequest& request) {
      return request.ttft ? std::optional(Milliseconds(*request.ttft)) : std::nullopt;
    });
    RequireMean("e2el", kSlackMs, [](const BenchmarkRequest& request) {
      return request.e2e ? std::optional(Milliseconds(*request.e2e)) : std::nullopt;
    });
    constexpr double kTpotSlackMs = 0.1;
    RequireMean("tpot", kTpotSlackMs, TpotMs);
    RequireDuration();
  }

  // Holds where each request with more than one token has the latency.
  void RequireMean(const char* latency, double slack_ms,
                   const std::function<std::optional<double>(const BenchmarkRequest&)>& of) const {
    const std::string name = Key("mean", latency);
    const std::optional<double> stated = Find(name);
    double sum = 0;
    std::int64_t count = 0;
    for (const BenchmarkRequest& request : run_.requests) {
      if (!request.completed) continue;
      const std::optional<double> ms = of(request);
      if (!ms && request.output_tokens > 1) return;
      if (!ms) continue;
      sum += *ms;
      ++count;
    }
    if (!stated || count == 0) return;
    const double mean = sum / static_cast<double>(count);
    if (Agree(*stated, mean, slack_ms)) return;
    RefuseTotal(name, fmt::format("the mean of the file's requests, {:.6g}, within 2 %", mean));
  }

  // The run lasts as long as its requests.
  void RequireDuration() const {
    const std::optional<double> stated = Find(kDurationTotal);
    if (!stated) return;
    TimePoint first = kTimeNever;
    TimePoint last = kTimeZero;
    for (const BenchmarkRequest& request : run_.requests) {
      if (!request.completed || !request.e2e) continue;
      first = std::min(first, request.sent);
      last = std::max(last, request.sent + *request.e2e);
    }
    if (last <= first ||
        1e3 * *stated >= Milliseconds(last - first) * (1 - kSlackShare) - kSlackMs) {
      return;
    }
    RefuseTotal(kDurationTotal, fmt::format("at least the {:.6g} s from the first sending to the "
                                            "last token of its requests",
                                            Seconds(last - first)));
  }

  // The buckets hold all samples, and the sum can be theirs.
  void RequireWhole(const std::string& name, const BucketHistogram& histogram) const {
    if (histogram.buckets.empty()) return;
    double count = 0;
    double least = 0;
    double most = 0;
    for (const Bucket& bucket : histogram.buckets) {
      count += bucket.count;
      least += bucket.count * bucket.above;
      most += bucket.count * bucket.up_to;
    }
    const auto refuse = [&](const char* what, double found, const std::string& allowed) {
      throw InputError(InputError::Kind::kData, path_,
                       fmt::format("histogram {}: {} is {}; allowed: {}", name, what,
                                   ShortestText(found), allowed));
    };
    if (count != histogram.count) {
      refuse("its count", histogram.count,
             fmt::format("{}, as in its buckets", ShortestText(count)));
    }
    constexpr double kSlack = 0.01;  // a server adds to a bucket and to the sum one after the other
    if (histogram.sum < least * (1 - kSlack) || histogram.sum > most * (1 + kSlack)) {
      refuse("its sum", histogram.sum,
             fmt::format("{} to {}, as its buckets hold", ShortestText(least), ShortestText(most)));
    }
  }

  const std::string& path_;
  BenchmarkRun& run_;
};

}  // namespace

void ApplyMeasuredRules(const std::string& path, BenchmarkRun& run) {
  for (std::size_t i = 0; i < run.requests.size(); ++i) {
    if (!run.requests[i].completed) continue;
    RequestRule(path, i + 1, run.requests[i]).Apply(run.lists_gaps);
  }
  TotalsRule(path, run).Apply();
}

}  // namespace twin
