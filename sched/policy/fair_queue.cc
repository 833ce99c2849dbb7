#include "sched/policy/fair_queue.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace twin {
namespace {

// Makes the heap's head the smallest entry.
constexpr auto kServedMore = [](const auto& a, const auto& b) { return b < a; };

}  // namespace

FairQueue::Tenant& FairQueue::Of(std::uint32_t tenant) {
  const auto [found, is_new] = tenants_.try_emplace(tenant);
  if (is_new && tenant < shares_.tenant_shares.size()) {
    found->second.share = shares_.tenant_shares[tenant];
  }
  return found->second;
}

double FairQueue::counter(std::uint32_t tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : found->second.counter;
}

bool FairQueue::Before(const Sequence& a, const Sequence& b) const {
  const Entry of_a{counter(a.tenant), a.tenant};
  const Entry of_b{counter(b.tenant), b.tenant};
  return a.tenant != b.tenant ? of_a < of_b : a.id < b.id;
}

RequestId FairQueue::front() const {
  CHECK(size_ > 0);
  return tenants_.at(heap_.front().tenant).waiting.front();
}

void FairQueue::List(std::uint32_t id, Tenant& tenant) {
  if (!tenant.listed) {
    tenant.listed = true;
    heap_.push_back({tenant.counter, id});
    std::push_heap(heap_.begin(), heap_.end(), kServedMore);
  }
  Settle();
}

void FairQueue::Settle() {
  while (!heap_.empty()) {
    const Entry head = heap_.front();
    Tenant& tenant = tenants_.at(head.tenant);
    if (!tenant.waiting.empty() && tenant.counter == head.counter) return;
    std::pop_heap(heap_.begin(), heap_.end(), kServedMore);
    if (tenant.waiting.empty()) {
      heap_.pop_back();
      tenant.listed = false;
    } else {
      heap_.back().counter = tenant.counter;
      std::push_heap(heap_.begin(), heap_.end(), kServedMore);
    }
  }
}

void FairQueue::PushArrival(const Sequence& s) {
  Tenant& tenant = Of(s.tenant);
  if (tenant.waiting.empty()) {
    double least = tenant.counter;
    if (size_ > 0) {
      least = counter(heap_.front().tenant);
    } else if (latest_admitted_) {
      least = counter(*latest_admitted_);
    }
    tenant.counter = std::max(tenant.counter, least);
  }
  tenant.waiting.PushArrival(s.id, 0);
  ++size_;
  List(s.tenant, tenant);
}

void FairQueue::PushFront(const Sequence& s) {
  Tenant& tenant = Of(s.tenant);
  tenant.waiting.PushPreempted(s.id, 0);
  ++size_;
  List(s.tenant, tenant);
}

RequestId FairQueue::PopFront() {
  CHECK(size_ > 0);
  const RequestId id = tenants_.at(heap_.front().tenant).waiting.PopFront();
  --size_;
  Settle();
  return id;
}

void FairQueue::Erase(const Sequence& s) {
  Of(s.tenant).waiting.Erase(s.id);
  --size_;
  Settle();
}

void FairQueue::ChargeInput(const Sequence& s) {
  latest_admitted_ = s.tenant;
  if (s.preemptions > 0) return;
  Tenant& tenant = Of(s.tenant);
  tenant.counter += shares_.input_weight * s.prompt_tokens / tenant.share;
  Settle();
}

void FairQueue::RefundInput(const Sequence& s) {
  if (s.preemptions > 0) return;
  Tenant& tenant = Of(s.tenant);
  tenant.counter -= shares_.input_weight * s.prompt_tokens / tenant.share;
  for (Entry& entry : heap_) entry.counter = counter(entry.tenant);
  std::make_heap(heap_.begin(), heap_.end(), kServedMore);
  Settle();
}

void FairQueue::ChargeOutput(std::uint32_t id) {
  Tenant& tenant = Of(id);
  tenant.counter += shares_.output_weight / tenant.share;
  Settle();
}

}  // namespace twin
