// Which waiting request a policy admits first: an order that several policies share.
//
// An order combines with the rules of a policy (its core): the order decides who is next, and where
// the core preempts, who goes first; the core decides how much fits. Within an order, ties are
// broken by arrival.
//
// Sources: Schrage, 1968 (shortest remaining time); Sheng et al., OSDI'24 (VTC, fair_queue.h); the
// deadlines of Niyama, the branch of Sarathi-Serve for tiers of service (revision 72339db5).
//
// Easy to get wrong:
// - The head of the queue is never skipped. If it does not fit, no request after it is admitted.
// - A policy never sees an output length, only the prediction that the workload wrote into the
//   arrival. Without a prediction the output limit takes its place.
// - Ageing is continuous: in `ageing` of waiting a request gains one level of priority, and in half
//   of it half a level, so that the order of two requests never changes while they wait.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/time.h"
#include "sched/policy/fair_queue.h"
#include "sched/policy/policy.h"
#include "sched/sequence.h"

namespace twin {

// When the tokens of a tenant's requests are due.
struct ServiceTier {
  Duration ttft = std::chrono::seconds(1);       // the first token, after the arrival
  Duration tbt = std::chrono::milliseconds(50);  // each further token, after the one before
  // If not 0: the last token, after the arrival; ttft and tbt do not count then.
  Duration ttlt{0};

  bool operator==(const ServiceTier&) const = default;
};

struct OrderConfig {
  enum class Kind : std::uint8_t {
    kFcfs,      // by arrival
    kPriority,  // by priority, smaller first
    kSjf,       // by `size`, smaller first
    kSrpt,      // by predicted output tokens left; running requests give way to smaller ones
    kVtc,       // the tenant with the least service first (fair_queue.h)
    kEdf,       // by the time at which the next token is due (tiers)
  };
  enum class Size : std::uint8_t { kOutput, kPrompt };

  Kind kind = Kind::kFcfs;
  Duration ageing{0};         // kPriority: waiting so long counts as one level; 0 = never
  Size size = Size::kOutput;  // kSjf: predicted output tokens, or prompt tokens
  FairShares shares{};        // kVtc
  // kEdf: of the tenants 0, 1, ...; further tenants have the last one.
  std::vector<ServiceTier> tiers{};
  // kEdf: what an output token takes in a batch. A request with a ttlt is due so much earlier for
  // each output token that it is expected to produce.
  Duration token_time = std::chrono::milliseconds(20);

  [[nodiscard]] bool first_come_first_served() const { return kind == Kind::kFcfs; }
  // Running requests are preempted for waiting ones that come before them.
  [[nodiscard]] bool preempts() const { return kind == Kind::kSrpt; }
  [[nodiscard]] bool reads_predictions() const;

  // Throws InputError (usage), "policy.FIELD.order.NAME: ...".
  void Validate(std::string_view policy) const;
  // Validate, for a policy that never preempts for the sake of waiting requests.
  void ValidateWithoutPreemption(std::string_view policy) const;
  // Sets the traits of a policy that depend on its order.
  void SetTraits(PolicyTraits& traits) const;

  bool operator==(const OrderConfig&) const = default;
};

// The place of a request in the order, smaller first.
[[nodiscard]] std::int64_t OrderKey(const OrderConfig& order, const Sequence& s);

// When its next token is due. REQUIRES: an order that Validate accepts, of kind kEdf.
[[nodiscard]] TimePoint NextTokenDue(const OrderConfig& order, const Sequence& s);

// Output tokens that the request is expected to produce: the prediction, or else the output limit.
// A request that has outlived its prediction is taken to produce twice as many, and so on.
[[nodiscard]] std::int32_t ExpectedOutput(const Sequence& s);

}  // namespace twin
