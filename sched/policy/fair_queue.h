// Waiting requests of several tenants; the tenant with the least service comes first.
//
// A virtual token counter per tenant adds up what the tenant has been served: input tokens when a
// request is admitted, output tokens as they are computed. The next request is the earliest one of
// the tenant with the smallest counter. A tenant that comes back after a pause is lifted to the
// other tenants: none saves up service. While two tenants both wait all the time, their service
// differs by at most 2 max(input weight * longest prompt, output weight * tokens in the cache).
//
// Source: Sheng et al., OSDI'24 (VTC); its artifact, revision 192c2e20.
//
// Easy to get wrong:
// - The first output token of a request comes with its prompt and is not charged, as in the
//   artifact.
// - A tenant is lifted when a request of it arrives while none waits: to the smallest counter of
//   the waiting tenants, or, if none waits, to the counter of the tenant admitted last.
// - A request that was preempted goes back to the front of its tenant's requests. It has been
//   charged, and is not charged again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/ids.h"
#include "sched/policy/waiting_queue.h"
#include "sched/sequence.h"
#include "sched/step_plan.h"

namespace twin {

struct FairShares {
  double input_weight = 1;   // of an input token
  double output_weight = 2;  // of an output token
  // Shares of the tenants 0, 1, ...: twice the share is charged half. Further tenants have 1.
  std::vector<double> tenant_shares;

  bool operator==(const FairShares&) const = default;
};

// Takes logarithmic time in the number of waiting tenants per call, amortised.
class FairQueue {
 public:
  explicit FairQueue(FairShares shares) : shares_(std::move(shares)) {}

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }
  // REQUIRES: not empty.
  [[nodiscard]] RequestId front() const;

  void PushArrival(const Sequence& s);
  void PushFront(const Sequence& s);
  // Takes the front out without charging for it. REQUIRES: not empty.
  RequestId PopFront();
  // REQUIRES: the request waits here.
  void Erase(const Sequence& s);

  // The request is admitted: charges its input, unless that has been done; and the reverse.
  void ChargeInput(const Sequence& s);
  void RefundInput(const Sequence& s);
  // One more output token of the tenant.
  void ChargeOutput(std::uint32_t tenant);

  // Whether a is served before b, both running.
  [[nodiscard]] bool Before(const Sequence& a, const Sequence& b) const;

  // Service of the tenant so far, in weighted tokens over its share.
  [[nodiscard]] double counter(std::uint32_t tenant) const;

 private:
  struct Tenant {
    double counter = 0;
    double share = 1;
    bool listed = false;  // has an entry in heap_
    WaitingQueue waiting{QueueOrder::kFcfs};
  };
  // A tenant that may wait. Counters grow, so an entry can be less than the tenant's counter.
  struct Entry {
    double counter = 0;
    std::uint32_t tenant = 0;

    friend bool operator<(const Entry& a, const Entry& b) {
      return a.counter != b.counter ? a.counter < b.counter : a.tenant < b.tenant;
    }
  };

  Tenant& Of(std::uint32_t tenant);
  void List(std::uint32_t id, Tenant& tenant);
  // Makes the head of heap_ the waiting tenant with the smallest counter.
  void Settle();

  FairShares shares_;
  std::unordered_map<std::uint32_t, Tenant> tenants_;  // never iterated
  std::vector<Entry> heap_;
  std::size_t size_ = 0;
  std::optional<std::uint32_t> latest_admitted_;
};

}  // namespace twin
