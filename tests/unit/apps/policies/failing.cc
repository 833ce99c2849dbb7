// A policy whose plan throws.
#include <stdexcept>

#include "config/policy_library.h"

namespace {

class Failing final : public twin::Policy {
 public:
  Failing() { traits_.name = "failing"; }
  [[nodiscard]] const twin::PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const twin::Sequence& /*sequence*/) override {}
  void Remove(const twin::Sequence& /*sequence*/) override {}
  void Plan(twin::StepBuilder& /*step*/) override { throw std::out_of_range("no\nsuch place"); }

 private:
  twin::PolicyTraits traits_;
};

}  // namespace

TWIN_POLICY(Failing)
