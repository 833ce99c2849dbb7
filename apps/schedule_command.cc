// twinserve schedule: what a policy decides, step by step, in unit time.
#include <fstream>
#include <iostream>
#include <map>
#include <memory>

#include "apps/commands.h"
#include "apps/progress.h"
#include "core/input_error.h"
#include "lab/schedule/schedule_run.h"
#include "proto/policy_params.h"
#include "sched/invariant.h"

namespace twin::apps {
namespace {

struct ScheduleArguments {
  std::vector<std::string> files;
  bool check = false;
};

struct Tally {
  std::int64_t cases = 0;
  std::int64_t matched = 0;
  std::string first_difference;
};

// How the loop around the policy processes results follows from its parameters.
lab::UnitTimePolicy PolicyOf(const lab::ScheduleCase& c, const std::string& where) {
  lab::UnitTimePolicy policy{ReadPolicyParams(c.policy, c.params.dump(), where), {}};
  const PolicyTraits traits = MakePolicy(policy.config, KvPoolConfig{})->traits();
  policy.options.batch_delivery = traits.delivery == Delivery::kBatchEnd;
  policy.options.depth = traits.steps_in_flight_max;
  if (traits.steps_in_flight_max > 1) policy.options.queue = lab::BatchQueue::kPipeline;
  // Who reserves for the longest output that a model can give has no room for longer ones, and V1
  // computes nothing behind it.
  const auto* v1 = std::get_if<VllmV1Config>(&policy.config);
  if (!traits.preempts || v1 != nullptr) {
    policy.options.context_tokens_max = traits.context_tokens_max;
  }
  if (v1 != nullptr && v1->async_scheduling) {
    const bool eager = v1->release == VllmV1Release::k0_33_0;
    policy.options.queue = eager ? lab::BatchQueue::kAsyncEager : lab::BatchQueue::kAsync;
  }
  return policy;
}

void Compare(const lab::ScheduleCase& c, const lab::UnitTimePolicy& policy, Tally& tally) {
  ++tally.cases;
  std::string difference;
  try {
    difference = lab::FirstDifference(c, lab::DecideCase(c, policy));
  } catch (const InvariantViolation& violation) {
    difference = violation.what();
  }
  if (difference.empty()) {
    ++tally.matched;
  } else if (tally.first_difference.empty()) {
    tally.first_difference = c.name + "\n     " + difference;
  }
}

void Schedule(const ScheduleArguments& arguments, CommandContext& context) {
  std::map<std::string, Tally> tallies;
  Progress progress("cases", 0);
  std::uint64_t done = 0;
  for (const std::string& file : arguments.files) {
    std::ifstream in(file);
    if (!in) throw InputError(InputError::Kind::kUsage, file, "cannot be read");
    std::int64_t number = 0;
    for (std::string line; std::getline(in, line);) {
      const std::string where = file + ":" + std::to_string(++number);
      const lab::ScheduleCase c = lab::ParseScheduleCase(line, where);
      const lab::UnitTimePolicy policy = PolicyOf(c, where);
      if (arguments.check) {
        if (c.steps.is_null())
          throw InputError(InputError::Kind::kData, where, "field 'steps' is missing");
        Compare(c, policy, tallies[c.variant]);
      } else {
        nlohmann::ordered_json result{{"case", c.name}, {"steps", lab::DecideCase(c, policy)}};
        std::cout << result.dump() << "\n";
      }
      progress.Show(++done);
    }
    if (number == 0)
      throw InputError(InputError::Kind::kData, file,
                       "holds no case; allowed: NDJSON, a case a line");
  }
  for (const auto& [variant, tally] : tallies) {
    const bool all = tally.matched == tally.cases;
    std::cout << variant << ": " << tally.matched << "/" << tally.cases << " matched\n";
    if (!all) {
      std::cout << "     " << tally.first_difference << "\n";
      context.exit_code = 1;
    }
  }
}

}  // namespace

void AddScheduleCommand(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<ScheduleArguments>();
  CLI::App* command = app.add_subcommand(
      "schedule", "What policies decide, step by step, in unit time (one iteration = one step)");
  command->add_option("--cases,CASES", arguments->files, "Case files (NDJSON)")->required();
  command->add_flag("--check", arguments->check,
                    "Compare with the cases' steps; exit 1 on a difference");
  command->callback([arguments, &context] { Schedule(*arguments, context); });
}

}  // namespace twin::apps
