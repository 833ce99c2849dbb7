// A policy that decides well and says what is not so. Its parameter `lie` chooses what.
#include <limits>
#include <stdexcept>
#include <string>

#include "config/policy_library.h"
#include "shortest_prompt_first.h"

namespace {

class Lying final : public twin::Policy {
 public:
  explicit Lying(const twin::PolicyParameters& parameters)
      : honest_(twin::PolicyParameters()), traits_(honest_.traits()) {
    const std::string lie = parameters.Text("lie", "");
    if (lie == "name") traits_.name = "\xff\xfe";
    if (lie == "step_engine") traits_.step_engine = "\xff\xfe\n";
    if (lie == "memory_rule") traits_.memory_rule = "everything";
    if (lie == "swaps") traits_.swaps_to_host = true;
    if (lie == "sized") traits_.sized_for_tokens = 1;
    if (lie == "context") traits_.context_tokens_max = 100;
    if (lie == "sequences") traits_.sequences_per_step_max = 1'000'000;
    if (lie == "one_sequence") traits_.sequences_per_step_max = 1;
    if (lie == "negative") traits_.tokens_per_step_max = std::numeric_limits<std::int32_t>::min();
    if (lie == "overlaps") traits_.overlaps_own_steps = true;
    if (lie == "drafts") traits_.drafts_max = 8;
    if (lie == "batch_end") traits_.delivery = twin::Delivery::kBatchEnd;
    throws_ = lie == "throws";
  }
  [[nodiscard]] const twin::PolicyTraits& traits() const override { return traits_; }
  void Enqueue(const twin::Sequence& sequence) override { honest_.Enqueue(sequence); }
  void Remove(const twin::Sequence& sequence) override { honest_.Remove(sequence); }
  void Plan(twin::StepBuilder& step) override {
    if (throws_) throw std::runtime_error("\xff\xfe\nis no text");
    honest_.Plan(step);
  }

 private:
  ShortestPromptFirst honest_;
  twin::PolicyTraits traits_;
  bool throws_ = false;
};

}  // namespace

TWIN_POLICY(Lying)
