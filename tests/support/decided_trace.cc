#include "tests/support/decided_trace.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "core/hash.h"
#include "sched/engine.h"
#include "sched/policy/policy_config.h"
#include "sched/serve.h"
#include "sched/world.h"

namespace twin::testing {
namespace {

class DecidedTrace final : public World {
 public:
  DecidedTrace(const TraceOptions& options, std::vector<Asked> asked, Engine& engine)
      : options_(options),
        asked_(std::move(asked)),
        engine_(engine),
        emitted_(asked_.size()),
        verified_(asked_.size()) {}

  Instant Advance(TimePoint /*wake_at*/) override {
    if (iteration_ > 0) CloseIteration();
    if (unfinished_ == 0 && flights_.empty() && events_.empty()) {
      if (next_ == asked_.size()) return {};
      iteration_ = std::max(iteration_, asked_[next_].step - 1);
    }
    ++iteration_;
    while (next_ < asked_.size() && asked_[next_].step <= iteration_) Announce();
    launched_ = false;
    if (events_.empty()) events_.push_back(WakeUp{});
    return {TimePoint{Duration{iteration_}}, events_};
  }

  void Launch(const StepPlan& plan) override {
    SettleFree(plan.free_blocks_before);
    launched_ = true;
    flights_.push_back({iteration_, &plan});
    unfinished_ -= static_cast<std::int32_t>(plan.rejected.size());
    std::string work;
    for (const WorkItem& item : plan.work) {
      work +=
          std::string(" ") + Name(item.request) + ":" + Letter(item) + std::to_string(item.tokens);
    }
    std::string rest;
    std::vector<RequestId> recomputed;
    std::vector<RequestId> swapped;
    std::vector<RequestId> rejected;
    for (const Preemption& p : plan.preempted) {
      (p.how == Preemption::How::kSwap ? swapped : recomputed).push_back(p.request);
    }
    for (const Rejection& r : plan.rejected) rejected.push_back(r.request);
    rest += List("pre", recomputed) + List("out", swapped) + List("in", plan.resumed) +
            List("rel", plan.released) + List("rej", rejected);
    if (plan.totals.padding_tokens > 0) {
      rest += " | tokens=" + std::to_string(plan.totals.tokens());
    }
    rest += " | free=" + std::to_string(plan.free_blocks);
    for (const WorkItem& item : plan.work) {
      if (options_.shows_blocks) rest += " " + Blocks(item.request);
    }
    lines_.push_back("it" + std::to_string(iteration_) + ":" + work + rest);
  }

  [[nodiscard]] std::string text() const {
    std::string text;
    for (const std::string& line : lines_) text += line + "\n";
    return text;
  }

 private:
  struct Flight {
    std::int32_t iteration;
    const StepPlan* plan;
  };

  static char Letter(const WorkItem& item) {
    if (item.drafts > 0) return 'V';
    return item.phase == Phase::kDecode ? 'D' : 'P';
  }

  static char Name(RequestId id) { return static_cast<char>('A' + Index(id)); }

  static std::string List(const std::string& name, const std::vector<RequestId>& ids) {
    if (ids.empty()) return {};
    std::string text;
    for (const RequestId id : ids) text += (text.empty() ? "" : ",") + std::string(1, Name(id));
    return " | " + name + "=[" + text + "]";
  }

  [[nodiscard]] std::string Blocks(RequestId id) const {
    std::string text;
    for (const BlockId block : engine_.sequences()[id].blocks.device) {
      text += (text.empty() ? "" : ",") + std::to_string(Index(block) + 1);
    }
    return std::string(1, Name(id)) + "=[" + text + "]";
  }

  void CloseIteration() {
    events_.clear();
    outcomes_.clear();
    filled_.clear();
    SettleFree(engine_.pool().free() + engine_.pool().cached());
    if (!launched_ && unfinished_ > 0) {
      lines_.push_back("it" + std::to_string(iteration_) + ": | free=" +
                       std::to_string(engine_.pool().free() + engine_.pool().cached()));
    }
    if (!flights_.empty() && flights_.front().iteration + options_.depth <= iteration_ + 1) {
      Finish(*flights_.front().plan);
      flights_.pop_front();
    }
  }

  void Finish(const StepPlan& plan) {
    std::vector<RequestId> finished;
    for (const WorkItem& item : plan.work) {
      if (!item.emits) continue;
      const Asked& asked = asked_[Index(item.request)];
      ItemOutcome outcome{.request = item.request, .accepted_drafts = Accepted(item)};
      std::int32_t known = asked.prompt + emitted_[Index(item.request)];
      while (outcome.emitted_tokens <= outcome.accepted_drafts &&
             known < asked.prompt + asked.output) {
        ++outcome.emitted_tokens;
        ++known;
        if (!asked.content.empty() && known % engine_.pool().config().tokens_per_key() == 0) {
          filled_.push_back({item.request, KeyOf(item.request, known)});
        }
      }
      emitted_[Index(item.request)] = known - asked.prompt;
      const PolicyTraits& traits = engine_.policy().traits();
      if (!traits.assumes_drafts) outcome.new_drafts = traits.drafts_max;
      if (known == asked.prompt + asked.output) {
        finished.push_back(item.request);
        outcome.finish = FinishReason::kLength;
      }
      const ItemOutcome expected{.request = item.request, .emitted_tokens = 1};
      if (outcome != expected) outcomes_.push_back(outcome);
    }
    unfinished_ -= static_cast<std::int32_t>(finished.size());
    std::sort(finished.begin(), finished.end());
    lines_.back() += List("fin", finished);
    free_is_open_ = !finished.empty();
    events_.push_back(StepFinished{plan.id, TimePoint{Duration{iteration_}}, outcomes_, filled_});
  }

  std::int32_t Accepted(const WorkItem& item) {
    if (item.drafts == 0) return 0;
    const std::vector<std::int32_t>& accepts = asked_[Index(item.request)].accepts;
    const std::size_t number = verified_[Index(item.request)]++;
    return number < accepts.size() ? std::min<std::int32_t>(item.drafts, accepts[number]) : 0;
  }

  void SettleFree(std::int32_t free_blocks) {
    if (free_is_open_) lines_.back() += " | freeA=" + std::to_string(free_blocks);
    free_is_open_ = false;
  }

  // Of the block that ends with `tokens` tokens and of all before it.
  [[nodiscard]] BlockKey KeyOf(RequestId id, std::int32_t tokens) const {
    const std::vector<std::uint64_t>& content = asked_[Index(id)].content;
    std::uint64_t key = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(tokens); ++i) {
      key = MixWords(key, i < content.size() ? content[i] : MixWords(Index(id) + 1, i));
    }
    return SharedKey(key);
  }

  void Announce() {
    const RequestId id{static_cast<std::uint32_t>(next_)};
    const Asked& asked = asked_[next_++];
    std::vector<BlockKey>& keys = keys_.emplace_back();
    if (!asked.content.empty()) {
      const std::int32_t step = engine_.pool().config().tokens_per_key();
      for (std::int32_t end = step; end <= asked.prompt; end += step) {
        keys.push_back(KeyOf(id, end));
      }
    }
    ++unfinished_;
    Request request;
    request.id = id;
    request.prompt_tokens = asked.prompt;
    request.max_output_tokens = asked.output;
    request.priority = asked.priority;
    request.prefix_keys = keys;
    request.arrival = TimePoint{Duration{asked.step}};
    request.predicted_output_tokens = asked.predicted;
    request.tenant = asked.tenant;
    events_.push_back(RequestArrived{request});
  }

  TraceOptions options_;
  std::vector<Asked> asked_;
  Engine& engine_;
  std::vector<std::int32_t> emitted_;
  std::vector<std::size_t> verified_;  // items
  std::vector<std::string> lines_;
  std::deque<Flight> flights_;
  std::deque<std::vector<BlockKey>> keys_;
  std::int32_t iteration_ = 0;
  std::int32_t unfinished_ = 0;
  std::size_t next_ = 0;
  bool launched_ = false;
  bool free_is_open_ = false;  // the last line still lacks freeA
  std::vector<Event> events_;
  std::vector<ItemOutcome> outcomes_;
  std::vector<BlockFilled> filled_;
};

}  // namespace

std::string Decided(const PolicyConfig& policy, const TraceOptions& options,
                    std::vector<Asked> asked) {
  EngineConfig config;
  const PolicyTraits traits = TraitsOf(policy);
  config.kv = {options.block_size,
               options.blocks,
               options.host_blocks,
               traits.release_order,
               traits.KeyTokens(options.block_size),
               options.window_blocks};
  config.plans_per_instant_max = 1;
  Engine engine(config, MakePolicy(policy, config.kv));
  DecidedTrace trace(options, std::move(asked), engine);
  Serve(engine, trace);
  engine.CheckDrained();
  return trace.text();
}

}  // namespace twin::testing
