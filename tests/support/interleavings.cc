#include "tests/support/interleavings.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "core/check.h"
#include "core/hash.h"
#include "sched/policy/fastserve.h"
#include "sched/policy/policy_config.h"
#include "sched/policy/registry.h"
#include "sched/policy/triton.h"

namespace twin::testing {
namespace {

// Prompt and output of the requests; the second one meets the first one's blocks, and the third
// one's prompt begins as the first one's.
constexpr std::pair<std::int32_t, std::int32_t> kSizes[] = {{3, 2}, {5, 3}, {4, 2}, {2, 1}};
constexpr std::int32_t kBlockSize = 2;
constexpr std::int32_t kBlocks = 6;
constexpr std::int32_t kTokensMax = 8;  // of one request
constexpr std::int32_t kLongest = 400;  // happenings; far more than any run needs that ends

// Policies for which time passes; others see no clock.
bool ReadsTheClock(const PolicyConfig& config) {
  return VisitPolicy(config, [](const auto& c) {
    using Config = std::decay_t<decltype(c)>;
    if constexpr (std::is_same_v<Config, TritonConfig> || std::is_same_v<Config, FastServeConfig>) {
      return true;
    } else if constexpr (requires { c.order; }) {
      return c.order.has_value();
    } else {
      return false;
    }
  });
}

std::uint64_t HashOf(const StepPlan& plan) {
  std::uint64_t hash = plan.work.size();
  const auto add = [&hash](auto value) {
    hash = MixWords(hash, static_cast<std::uint64_t>(value));
  };
  for (const WorkItem& item : plan.work) {
    add(Index(item.request));
    add(item.start);
    add(item.tokens);
    add(item.drafts);
  }
  for (const Preemption& p : plan.preempted) add(1000 + Index(p.request));
  for (const RequestId id : plan.admitted) add(2000 + Index(id));
  for (const RequestId id : plan.resumed) add(3000 + Index(id));
  for (const RequestId id : plan.released) add(4000 + Index(id));
  for (const Rejection& r : plan.rejected) add(5000 + Index(r.request));
  return hash;
}

std::string TextOf(const std::vector<Happening>& path) {
  std::string text;
  for (const Happening& h : path) {
    text += " (";
    if (h.results > 0) text += fmt::format("{} return from {}", h.results, h.first);
    if (h.accepts) text += " accepting";
    if (h.ends >= 0) text += fmt::format(" ending {}", h.ends);
    if (h.leaves >= 0) text += fmt::format(" {} leaves", h.leaves);
    if (h.arrives) text += " arrival";
    text += h.wakes ? " wakes)" : ")";
  }
  return text;
}

}  // namespace

InterleavedRun::InterleavedRun(const InterleavingCase& c)
    : case_(c),
      engine_(c.engine, c.make ? c.make() : MakePolicy(c.policy.config, c.engine.kv)),
      shadow_(c.engine.kv.block_size, c.engine.kv.blocks, c.engine.kv.host_blocks),
      cancels_left_(c.cancels),
      early_ends_left_(c.early_ends) {
  traits_ = engine_.policy().traits();
  for (std::int32_t i = 0; i < c.requests; ++i) {
    Progress& request = requests_.emplace_back();
    std::tie(request.prompt, request.output) = kSizes[i];
    std::uint64_t key = 0;
    for (std::int32_t at = 0; at < request.prompt + request.output; ++at) {
      const bool shared = i == 2 && at < 3 && c.policy.shares_prefixes;
      request.content.push_back(
          MixWords(shared ? 1 : static_cast<std::uint64_t>(i) + 1, static_cast<std::uint64_t>(at)));
      key = MixWords(key, request.content.back());
      if ((at + 1) % kBlockSize == 0) request.keys.push_back(SharedKey(key));
    }
  }
}

bool InterleavedRun::CanReturnInAnyOrder() const {
  return traits_.result_queue == ResultQueue::kInstances;
}

std::vector<Happening> InterleavedRun::Possible() const {
  std::vector<Happening> results;
  for (std::size_t i = 0; i < in_flight_.size(); ++i) {
    Happening h{.results = 1, .first = static_cast<std::int32_t>(i)};
    if (i > 0 && !CanReturnInAnyOrder()) break;
    results.push_back(h);
    bool drafts = false;
    for (const WorkItem& item : in_flight_[i]->work) {
      drafts = drafts || (item.drafts > 0 && item.phase == Phase::kDecode);
      const Progress& request = requests_[Index(item.request)];
      if (early_ends_left_ == 0 || !item.emits || request.ended) continue;
      if (request.emitted + 1 == request.output) continue;  // it ends in any case
      results.push_back(
          {.results = 1, .first = h.first, .ends = static_cast<std::int32_t>(Index(item.request))});
    }
    if (drafts) results.push_back({.results = 1, .first = h.first, .accepts = true});
  }
  if (in_flight_.size() > 1 && !CanReturnInAnyOrder()) results.push_back({.results = 2});
  std::vector<Happening> all = results;
  const bool may_arrive = arrived_ < requests_.size();
  results.insert(results.begin(), Happening{});
  for (const Happening& result : results) {
    Happening h = result;
    if (may_arrive) {
      h.arrives = true;
      all.push_back(h);
      h.arrives = false;
    }
    for (std::size_t i = 0; i < arrived_ && cancels_left_ > 0; ++i) {
      h.leaves = static_cast<std::int32_t>(i);
      if (!requests_[i].ended && h.ends != h.leaves) all.push_back(h);
    }
  }
  if (engine_.wake_at() != kTimeNever) all.push_back({.wakes = true});
  return all;
}

void InterleavedRun::Apply(const Happening& happening) {
  now_ += Duration{1};
  if (happening.wakes) now_ = std::max(now_, engine_.wake_at());
  std::deque<std::vector<ItemOutcome>> outcomes;
  std::deque<std::vector<BlockFilled>> filled;
  for (std::int32_t i = 0; i < happening.results; ++i) {
    Return(static_cast<std::size_t>(happening.first), happening, outcomes.emplace_back(),
           filled.emplace_back());
  }
  if (happening.leaves >= 0) {
    Progress& request = requests_[static_cast<std::size_t>(happening.leaves)];
    if (!request.ended) --cancels_left_;
    request.ended = true;
    engine_.Handle(RequestCancelled{RequestId{static_cast<std::uint32_t>(happening.leaves)}});
  }
  if (happening.arrives) Announce();
  if (happening.wakes) engine_.Handle(WakeUp{});
  Plan();
  Audit();
}

void InterleavedRun::Return(std::size_t index, const Happening& happening,
                            std::vector<ItemOutcome>& outcomes, std::vector<BlockFilled>& filled) {
  const StepPlan& plan = *in_flight_[index];
  for (const WorkItem& item : plan.work) {
    if (!item.emits) continue;
    if (traits_.forgets_stale_tokens && stale_.Takes(item.request)) {
      outcomes.push_back({item.request, 0, FinishReason::kNone});
    } else if (!requests_[Index(item.request)].ended) {
      Emit(item, happening, outcomes, filled);
    }
  }
  if (traits_.forgets_stale_tokens) stale_.Returned();
  in_flight_.erase(in_flight_.begin() + static_cast<std::ptrdiff_t>(index));
  engine_.Handle(StepFinished{plan.id, now_, outcomes, filled});
}

void InterleavedRun::Emit(const WorkItem& item, const Happening& happening,
                          std::vector<ItemOutcome>& outcomes, std::vector<BlockFilled>& filled) {
  Progress& request = requests_[Index(item.request)];
  const bool accepts = happening.accepts && item.phase == Phase::kDecode;
  ItemOutcome outcome{.request = item.request, .accepted_drafts = accepts ? item.drafts : 0};
  const bool stops = happening.ends == static_cast<std::int32_t>(Index(item.request));
  while (outcome.emitted_tokens <= outcome.accepted_drafts && !request.ended) {
    ++outcome.emitted_tokens;
    ++request.emitted;
    const std::int32_t known = request.prompt + request.emitted;
    if (case_.policy.shares_prefixes && known % kBlockSize == 0) {
      filled.push_back(
          {item.request, request.keys[static_cast<std::size_t>(known / kBlockSize - 1)]});
    }
    request.ended = stops || request.emitted == request.output;
  }
  if (request.ended) {
    const bool early = request.emitted < request.output;
    outcome.finish = early ? FinishReason::kStop : FinishReason::kLength;
    if (early) --early_ends_left_;
  }
  if (!traits_.assumes_drafts) outcome.new_drafts = traits_.drafts_max;
  if (outcome != ItemOutcome{.request = item.request, .emitted_tokens = 1}) {
    outcomes.push_back(outcome);
  }
}

void InterleavedRun::Announce() {
  Progress& progress = requests_[arrived_];
  progress.arrived = true;
  progress.arrival = now_;
  Request request;
  request.id = RequestId{static_cast<std::uint32_t>(arrived_)};
  request.arrival = now_;
  request.prompt_tokens = progress.prompt;
  request.max_output_tokens = progress.output;
  if (case_.policy.priorities) {
    request.priority = static_cast<std::int32_t>(3 - arrived_);
    request.tenant = static_cast<std::uint32_t>(arrived_ % 2);
    request.predicted_output_tokens = static_cast<std::int32_t>((arrived_ * 2 + 1) % 4);
  }
  const auto full = static_cast<std::size_t>(progress.prompt / kBlockSize);
  if (case_.policy.shares_prefixes) request.prefix_keys = {progress.keys.data(), full};
  ++arrived_;
  engine_.Handle(RequestArrived{request});
}

void InterleavedRun::Plan() {
  while (const StepPlan* plan = engine_.PlanStep(now_)) {
    for (const Rejection& rejection : plan->rejected)
      requests_[Index(rejection.request)].ended = true;
    Execute(*plan);
    if (traits_.forgets_stale_tokens) stale_.Launched(*plan);
    in_flight_.push_back(plan);
    plans_.push_back(HashOf(*plan));
  }
}

// Drafts are executed as if none of them were right: what they leave behind is overwritten.
void InterleavedRun::Execute(const StepPlan& plan) {
  std::string fault;
  if (traits_.drafts_max > 0) {
    fault = shadow_.Cover(plan);
  } else {
    fault = shadow_.Execute(plan, [this](RequestId id, std::int32_t position) {
      return requests_[Index(id)].content.at(static_cast<std::size_t>(position));
    });
  }
  if (!fault.empty()) throw std::runtime_error(fault);
}

void InterleavedRun::Audit() {
  std::int32_t live = 0;
  for (const Progress& request : requests_) live += request.arrived && !request.ended ? 1 : 0;
  const Census& census = engine_.census();
  if (census.waiting + census.running + census.swapped != live) {
    throw std::runtime_error("the engine has lost count of its requests");
  }
  if (live > 0 && in_flight_.empty() && engine_.wake_at() == kTimeNever) {
    throw std::runtime_error("the device idles, work waits");
  }
  engine_.CheckMemory();
}

void InterleavedRun::CheckEnd() const {
  for (const Progress& request : requests_) {
    if (!request.ended) throw std::runtime_error("a request never ends");
  }
  engine_.CheckDrained();
}

std::uint64_t InterleavedRun::Fingerprint() const {
  std::uint64_t hash = arrived_;
  const auto add = [&hash](auto value) {
    hash = MixWords(hash, static_cast<std::uint64_t>(value));
  };
  add(cancels_left_);
  add(early_ends_left_);
  for (const Progress& request : requests_) {
    add(request.emitted);
    add(request.ended);
    if (request.arrived && !request.ended && ReadsTheClock(case_.policy.config)) {
      add((now_ - request.arrival).count());
    }
  }
  for (std::uint32_t i = 0; i < arrived_; ++i) {
    if (!engine_.sequences().contains(RequestId{i})) continue;
    const Sequence& s = engine_.sequences()[RequestId{i}];
    for (const std::int32_t value : {s.known, s.computed, s.pending, s.in_flight, s.stale_in_flight,
                                     s.drafts, s.preemptions}) {
      add(value);
    }
    add(s.state);
    add(s.decodes);
    for (const BlockId block : s.blocks.device) add(Index(block));
    for (const BlockId block : s.blocks.host) add(Index(block));
  }
  add(engine_.pool().free());
  add(engine_.pool().cached());
  for (const StepPlan* plan : in_flight_) add(HashOf(*plan));
  const auto history = std::min(static_cast<std::size_t>(case_.history), plans_.size());
  for (std::size_t i = plans_.size() - history; i < plans_.size(); ++i) add(plans_[i]);
  return hash;
}

namespace {

class Explorer {
 public:
  explicit Explorer(const InterleavingCase& c) : case_(c) {}

  Exploration Run() {
    try {
      Explore(std::make_unique<InterleavedRun>(case_));
    } catch (const std::exception& error) {
      result_.failure = fmt::format("{} after{}", error.what(), TextOf(path_));
    }
    return result_;
  }

 private:
  void Explore(std::unique_ptr<InterleavedRun> run) {
    ++result_.states;
    const std::vector<Happening> possible = run->Possible();
    if (possible.empty()) {
      run->CheckEnd();
      ++result_.ends;
      result_.longest = std::max(result_.longest, static_cast<std::int32_t>(path_.size()));
      return;
    }
    if (path_.size() > kLongest) throw std::runtime_error("the run does not end");
    for (const Happening& happening : possible) {
      if (result_.transitions >= case_.transitions_max) {
        result_.complete = false;
        return;
      }
      // An engine cannot be copied: all but the first way on are reached from the start again.
      if (!run) run = Again();
      path_.push_back(happening);
      ++result_.transitions;
      run->Apply(happening);
      if (case_.history < 0 || IsNew(run->Fingerprint())) Explore(std::move(run));
      run.reset();
      path_.pop_back();
    }
  }

  // A state of the present path was seen before, too: following it once more ends at kLongest if
  // the run does not end.
  bool IsNew(std::uint64_t fingerprint) { return seen_.insert(fingerprint).second; }

  [[nodiscard]] std::unique_ptr<InterleavedRun> Again() const {
    auto run = std::make_unique<InterleavedRun>(case_);
    for (const Happening& happening : path_) run->Apply(happening);
    return run;
  }

  const InterleavingCase& case_;
  Exploration result_;
  std::vector<Happening> path_;
  std::unordered_set<std::uint64_t> seen_;
};

}  // namespace

Exploration ExploreInterleavings(const InterleavingCase& c) { return Explorer(c).Run(); }

InterleavingCase DrawInterleavingCase(const PolicyMode& mode, std::uint64_t seed) {
  Random random(seed, mode.name);
  InterleavingCase c;
  do {
    c.policy = mode.draw(random, kBlocks * kBlockSize);
  } while (c.policy.context_tokens < kTokensMax);
  c.engine.kv = {kBlockSize, kBlocks, c.policy.host_blocks,
                 TraitsOf(c.policy.config).release_order};
  return c;
}

}  // namespace twin::testing
