// A policy that never plans anything, which invariant I9 forbids.
#include "config/policy_library.h"

namespace {

class Idle final : public twin::Policy {
 public:
  Idle() { traits_.name = "idle"; }
  [[nodiscard]] const twin::PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const twin::Sequence& /*sequence*/) override {}
  void Remove(const twin::Sequence& /*sequence*/) override {}
  void Plan(twin::StepBuilder& /*step*/) override {}

 private:
  twin::PolicyTraits traits_;
};

}  // namespace

TWIN_POLICY(Idle)
