// --policy with a shared library: run, resolve, replay, sweep, capacity, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "config/experiment_config.h"
#include "docs/examples/my_policy/shortest_prompt_first.h"
#include "run/provenance.h"
#include "run/simulation.h"
#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using ::testing::AllOf;
using testing::CommandOutcome;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kLibrary = SHORTEST_PROMPT_FIRST;
constexpr const char* kStudy = R"(base: "small.textproto"
axis { path: "policy.own.parameters.tokens_per_step" values: [32, 256] }
replications: 2
)";

class OwnPolicyCommandTest : public testing::ExperimentFolderTest {
 protected:
  // vllm_v1 limits the requests of the small experiment, the policy of the library does not.
  OwnPolicyCommandTest() {
    std::string text = testing::kSmallExperiment;
    const std::string blocks = "blocks_override: 60";
    text.replace(text.find(blocks), blocks.size(), blocks + " max_model_length: 512");
    Write("small.textproto", text);
  }

  // The one line that a call writes, which must be refused as usage.
  [[nodiscard]] std::string Refusal(const std::vector<std::string>& arguments) const {
    const CommandOutcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
    return outcome.err;
  }
  [[nodiscard]] std::string RefusalOf(const std::string& policy) const {
    return Refusal({"run", "small.textproto", "--policy", policy, "--out", "refused"});
  }
  [[nodiscard]] std::string Text(const std::string& name) const {
    return ReadText(scratch_.File(name));
  }
};

// The digest of the small experiment where the class is compiled into this test.
std::string DigestWithin(const std::filesystem::path& file, const PolicyParameters& parameters) {
  auto own = std::make_shared<OwnPolicy>();
  own->traits = ShortestPromptFirst(parameters).traits();
  own->name = own->traits.name;
  own->make = [parameters](const KvPoolConfig& /*kv*/) {
    return std::make_unique<ShortestPromptFirst>(parameters);
  };
  ExperimentTemplate experiment(file);
  experiment.ReplacePolicy(own);
  run::RunControl silent;
  const run::Deployment deployment = run::Resolve(experiment.With({}, {}));
  return std::get<std::string>(*run::Simulate(deployment, silent).summary.Find("digest"));
}

TEST_F(OwnPolicyCommandTest, ALibraryDecidesAsItsClassInTheProgramDoes) {
  const std::filesystem::path small = scratch_.File("small.textproto");
  EXPECT_EQ(RunSmall("own", {"--policy", kLibrary})["digest"], DigestWithin(small, {}));
  const PolicyParameters given({{"tokens_per_step", "32"}, {"patience_s", "0.5"}});
  const nlohmann::json summary =
      RunSmall("given", {"--policy", kLibrary, "--set", "policy.own.parameters.patience_s=0.5",
                         "--set", "policy.own.parameters.tokens_per_step=32"});
  EXPECT_EQ(summary["digest"], DigestWithin(small, given));
  EXPECT_NE(summary["digest"], DigestWithin(small, {}));
}

TEST_F(OwnPolicyCommandTest, TheRunDirectoryNamesTheLibraryAndItsHashAndReplays) {
  (void)RunSmall("own", {"--policy", kLibrary});
  EXPECT_THAT(Text("own/config.resolved.textproto"),
              HasSubstr(std::string("policy {\n  own {\n    path: \"") + kLibrary + "\""));
  const nlohmann::json provenance = nlohmann::json::parse(Text("own/provenance.json"));
  const auto found = std::ranges::find_if(provenance["inputs"], [](const nlohmann::json& input) {
    return input["field"] == "policy.own.path";
  });
  ASSERT_NE(found, provenance["inputs"].end());
  EXPECT_EQ((*found)["hash"], run::HashOfFile(kLibrary).hex);
  const CommandOutcome replay = Run({"replay", "own"});
  EXPECT_EQ(replay.exit_code, 0) << replay.err;
  EXPECT_THAT(replay.out, EndsWith("equal\n"));
}

TEST_F(OwnPolicyCommandTest, AWrittenExperimentGivesTheRunAgain) {
  const nlohmann::json first =
      RunSmall("first", {"--policy", kLibrary, "--write-config", "again.textproto"});
  const CommandOutcome again = Run({"run", "again.textproto", "--out", "again"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(SummaryOf("again")["digest"], first["digest"]);
  EXPECT_THAT(Run({"resolve", "again.textproto"}).out, HasSubstr(kLibrary));
}

TEST_F(OwnPolicyCommandTest, AStudyVariesItsParametersAndIsNotContinuedWithAnotherLibrary) {
  const std::string mine = scratch_.File("mine.so");
  std::filesystem::copy_file(kLibrary, mine);
  Write("study.textproto", kStudy);
  const std::vector<std::string> line = {"sweep",   "study.textproto", "--policy",
                                         "mine.so", "--out",           "out"};
  const CommandOutcome outcome = Run(line);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(Text("out/results.csv"), StartsWith("point,policy.own.parameters.tokens_per_step,"));
  std::ofstream(mine, std::ios::app) << "another";
  EXPECT_THAT(Refusal(line), HasSubstr("out: holds another study"));
}

TEST_F(OwnPolicyCommandTest, ACapacityIsFoundWithIt) {
  const CommandOutcome outcome =
      Run({"capacity", "small.textproto", "--policy", kLibrary, "--vary", "workload.arrivals.rate",
           "--between", "5,500", "--until", "p99_ttft_ms<=500", "--replications", "2",
           "--doublings", "0"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("found"));
}

TEST_F(OwnPolicyCommandTest, OtherFilesAreRefused) {
  EXPECT_THAT(RefusalOf("missing.so"), HasSubstr("missing.so: no such file"));
  Write("broken.so", "no library");
  EXPECT_THAT(RefusalOf("broken.so"), HasSubstr("broken.so: cannot be loaded: "));
  EXPECT_THAT(
      RefusalOf(NO_POLICY),
      HasSubstr("has no symbol twin_policy_abi; allowed: a library with TWIN_POLICY(CLASS)"));
  EXPECT_THAT(RefusalOf(OTHER_BUILD),
              HasSubstr("was compiled for another twinserve (scheduler 0123456789abcdef, compiler "
                        "9.4.0; this one is "));
  Write("fair.py", "");
  EXPECT_THAT(RefusalOf("fair.py:Fair"),
              HasSubstr("fair.py: is a policy in Python, which this program cannot run; allowed: "
                        "the command twinserve of the Python package"));
}

TEST_F(OwnPolicyCommandTest, ASchedulerOfAReleaseIsNamedByItsClassAndNeedsPython) {
  const char* const needs_python =
      "policy.own.engine: vllm==0.33.0 is run by Python, which this program cannot do; allowed: "
      "the "
      "command twinserve of the Python package (pip install)";
  const auto refusal = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"run", "small.textproto"});
    return Refusal(options);
  };
  EXPECT_THAT(refusal({"--engine", "vllm==0.33.0"}), HasSubstr(needs_python));
  EXPECT_THAT(refusal({"--policy", "rules:Mine", "--engine", "vllm==0.33.0"}),
              HasSubstr(needs_python));
  EXPECT_THAT(refusal({"--policy", "rules:Mine"}),
              HasSubstr("policy.own.engine: is missing, and rules:Mine is in no file; allowed: a "
                        "release, such as vllm==0.33.0, whose scheduler it is"));
  EXPECT_THAT(refusal({"--policy", "rules.py:Mine", "--engine", "vllm==0.33.0"}),
              HasSubstr("rules.py: no such file"));
}

TEST_F(OwnPolicyCommandTest, StudiesTakeClassAndReleaseInAnyOrder) {
  Write("study.textproto", kStudy);
  int number = 0;
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--engine", "vllm==0.33.0", "--policy", "rules:Mine"},
        {"--policy", "rules:Mine", "--engine", "vllm==0.33.0"},
        {"--engine", "vllm==0.33.0"}}) {
    std::vector<std::string> line = {"sweep", "study.textproto", "--out",
                                     "out" + std::to_string(++number)};
    line.insert(line.end(), options.begin(), options.end());
    EXPECT_THAT(Run(line).err, HasSubstr("policy.own.engine: vllm==0.33.0 is run by Python"));
  }
}

TEST_F(OwnPolicyCommandTest, OtherParametersAreRefused) {
  const auto refusal = [&](const std::string& change) {
    return Refusal({"run", "small.textproto", "--policy", kLibrary, "--set", change});
  };
  EXPECT_THAT(refusal("policy.own.parameters.chunk=32"),
              HasSubstr("policy.own.parameters.chunk: is no parameter of the policy; allowed: "
                        "tokens_per_step, sequences, patience_s"));
  EXPECT_THAT(refusal("policy.own.parameters.sequences=many"),
              HasSubstr("policy.own.parameters.sequences: is many; allowed: a whole number"));
  EXPECT_THAT(refusal("policy.own.class=Fair"), HasSubstr("policy.own.class: "));
}

TEST_F(OwnPolicyCommandTest, AFailureIsOneLineThatNamesThePolicy) {
  const CommandOutcome failing = Run({"run", "small.textproto", "--policy", FAILING_POLICY});
  EXPECT_EQ(failing.exit_code, 1);
  EXPECT_THAT(failing.err, HasSubstr("policy failing failed: no"));
  const CommandOutcome idle = Run({"run", "small.textproto", "--policy", IDLE_POLICY});
  EXPECT_EQ(idle.exit_code, 1);
  EXPECT_THAT(idle.err, ContainsRegex("policy \\S+ \\(\\S*idle\\S*\\.so\\): invariant I9 broken"));
}

TEST_F(OwnPolicyCommandTest, GroupsOfReplicasShareIt) {
  const std::string groups =
      "system.replica_groups=[{ count: 1 }, { count: 1 policy { orca {} } }]";
  EXPECT_THAT(Refusal({"run", "small.textproto", "--policy", kLibrary, "--unset", "system.memory",
                       "--set", groups}),
              HasSubstr("policy.own decides for all replicas"));
}

}  // namespace
}  // namespace twin::apps
