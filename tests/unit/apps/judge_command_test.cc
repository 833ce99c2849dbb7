// twinserve judge with policies in shared libraries: verdicts, the policy's process, and what is
// refused. Policies in Python: tests/python/judge_test.py.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/experiment_config.h"
#include "docs/examples/my_policy/shortest_prompt_first.h"
#include "run/judge/judged_run.h"
#include "run/judge/policy_host.h"
#include "tests/unit/apps/experiment_folder.h"

namespace twin::apps {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using testing::CommandOutcome;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kLibrary = SHORTEST_PROMPT_FIRST;

class JudgeCommandTest : public testing::ExperimentFolderTest {
 protected:
  // The limits of the library's policy, and a load beyond what the system serves.
  JudgeCommandTest() {
    std::string text = testing::kSmallExperiment;
    const auto replace = [&](const std::string& from, const std::string& to) {
      text.replace(text.find(from), from.size(), to);
    };
    replace("max_num_batched_tokens: 256 max_num_seqs: 16", "max_num_batched_tokens: 512");
    replace("blocks_override: 60", "blocks_override: 60 max_model_length: 512");
    replace("rate: 20", "rate: 45");
    Write("small.textproto", text);
  }

  [[nodiscard]] std::vector<std::string> Line(const std::string& policy,
                                              const std::vector<std::string>& more) const {
    std::vector<std::string> line{"judge",           policy,   "--experiment",
                                  "small.textproto", "--seed", "5"};
    if (std::ranges::find(more, "--hostile") == more.end()) {
      line.insert(line.end(), {"--hostile", "20"});
    }
    line.insert(line.end(), more.begin(), more.end());
    return line;
  }
  [[nodiscard]] json VerdictOn(const std::string& policy,
                               const std::vector<std::string>& more = {}) const {
    const CommandOutcome outcome = Run(Line(policy, more));
    const json verdict = json::parse(outcome.out, nullptr, false);
    EXPECT_TRUE(verdict.is_object()) << outcome.out << outcome.err;
    EXPECT_EQ(outcome.exit_code, verdict.value("valid", false) ? 0 : 1);
    return verdict;
  }
  // On a library that does one thing beside planning.
  [[nodiscard]] json Hostile(const std::string& does, const std::vector<std::string>& more = {},
                             const std::string& library = HOSTILE_POLICY) const {
    std::vector<std::string> words{"--hostile",    "0", "--rounds",    "1",
                                   "--rounds-max", "1", "--parameter", "does=" + does};
    words.insert(words.end(), more.begin(), more.end());
    return VerdictOn(library, words);
  }
  [[nodiscard]] bool HasNamespaces() const {
    return Hostile("")["judge"]["sandbox"] == "namespaces";
  }
  [[nodiscard]] std::string Refusal(const std::vector<std::string>& arguments) const {
    const CommandOutcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
    return outcome.err;
  }
};

TEST_F(JudgeCommandTest, APolicyInItsOwnProcessDecidesAsItDoesHere) {
  auto own = std::make_shared<OwnPolicy>();
  own->traits = ShortestPromptFirst(PolicyParameters()).traits();
  own->name = own->traits.name;
  own->make = [](const KvPoolConfig& /*kv*/) {
    return std::make_unique<ShortestPromptFirst>(PolicyParameters());
  };
  run::SetHostCommand({TWINSERVE, {"twinserve", "judge", "--host"}, {}});
  run::HostOptions options;
  options.limits.memory_bytes = 0;  // sanitizers have addresses beyond any limit
  options.patience_s = 100;
  PolicyFile file;
  file.path = kLibrary;
  run::PolicyHost host(file, options);
  EXPECT_EQ(host.traits(), own->traits);

  ExperimentTemplate experiment(scratch_.File("small.textproto"));
  run::RunControl silent;
  experiment.ReplacePolicy(own);
  const run::JudgedRun here =
      run::RunJudged(run::Resolve(experiment.With({}, {})), silent, nullptr, "");
  experiment.ReplacePolicy(host.policy());
  for (const std::uint32_t id_shift : {0u, 12345u}) {
    RunObserver& tap = host.BeginRun({id_shift, {1, id_shift}}, true);
    const run::JudgedRun there =
        run::RunJudged(run::Resolve(experiment.With({}, {})), silent, &tap, "");
    EXPECT_EQ(there.digest, here.digest);
  }
  EXPECT_GT(host.planning_s().size(), 100u);
}

// Reasons why a policy that does one thing beside planning is invalid.
TEST_F(JudgeCommandTest, SurvivesWhateverAPolicySendsAndHowItEnds) {
  for (const auto& [does, reason] : {
         std::pair{"answers early", "sent no valid message"},
             std::pair{"answers too much", "sent no valid message"},
             std::pair{"closes its answers", "its process was ended by signal 9"},
             std::pair{"ends", "its process ended with exit code 3"},
             std::pair{"aborts", "its process was ended by signal 6"},
#if !defined(__SANITIZE_ADDRESS__)  // which handles the signal itself
             std::pair{"crashes", "its process was ended by signal 11"},
#endif
             std::pair{"forks", "made a system call that policies may not make: fork"},
             std::pair{"starts a program", "as at the start of a program"},
             std::pair{"ends with the program",
                       "made a system call that policies may not make: kill"},
             std::pair{"starts a thread", "Resource temporarily unavailable"},
       }) {
    const json verdict = Hostile(does);
    EXPECT_EQ(verdict["gate"], "G1") << does;
    EXPECT_THAT(verdict["reason"].get<std::string>(), HasSubstr(reason)) << does;
  }
}

TEST_F(JudgeCommandTest, NamesTheCallThatAPolicyMayNotMake) {
  struct Case {
    int number;
    int argument;
    const char* name;
  };
  for (const auto& [number, argument, name] : {
           Case{SYS_socket, 0, "socket"},
           Case{SYS_socketpair, 0, "socketpair"},
           Case{SYS_clone, 0, "clone"},
           Case{SYS_execve, 0, "execve"},
           Case{SYS_ptrace, 0, "ptrace"},
           Case{SYS_process_vm_readv, 0, "process_vm_readv"},
           Case{SYS_pidfd_open, 0, "pidfd_open"},
           Case{SYS_unshare, 0, "unshare"},
           Case{SYS_flock, 0, "flock"},
           Case{SYS_fcntl, F_SETLK, "fcntl"},
           Case{SYS_fcntl, F_SETLEASE, "fcntl"},
           Case{SYS_inotify_init1, 0, "inotify_init1"},
           Case{SYS_mknodat, 0, "mknodat"},
           Case{SYS_shmget, 0, "shmget"},
           Case{SYS_msgget, 0, "msgget"},
           Case{SYS_semget, 0, "semget"},
           Case{SYS_mq_open, 0, "mq_open"},
           Case{SYS_add_key, 0, "add_key"},
           Case{SYS_keyctl, 0, "keyctl"},
           Case{SYS_io_uring_setup, 0, "io_uring_setup"},
           Case{SYS_perf_event_open, 0, "perf_event_open"},
           Case{SYS_bpf, 0, "bpf"},
           Case{SYS_userfaultfd, 0, "userfaultfd"},
           Case{SYS_personality, 0, "personality"},
           Case{SYS_timer_create, 0, "timer_create"},
           Case{999, 0, "number 999"},
       }) {
    for (const char* const when : {"calls", "calls when it is loaded"}) {
      const json verdict = Hostile(when, {"--parameter", "call=" + std::to_string(number),
                                          "--parameter", "argument=" + std::to_string(argument)});
      EXPECT_EQ(verdict["reason"],
                "made a system call that policies may not make: " + std::string(name))
          << when;
    }
  }
}

TEST_F(JudgeCommandTest, APolicySeesNothingButWhatItNeeds) {
  if (!HasNamespaces()) GTEST_SKIP() << "needs user namespaces";
  for (const std::string& path :
       {std::string("/etc/passwd"), std::string("/run"), std::string("/proc/1/stat"),
        std::string("/proc/stat"), std::string("/sys"), scratch_.File("small.textproto")}) {
    const json verdict = Hostile("looks", {"--parameter", "path=" + path});
    EXPECT_TRUE(verdict["valid"]) << verdict.dump();
  }
  // The policy would say so if it saw something.
  EXPECT_EQ(Hostile("looks", {"--parameter", std::string("path=") + HOSTILE_POLICY})["gate"], "G1");
}

// A pipe beside the policy's file, which this test has open.
TEST_F(JudgeCommandTest, APolicyNeitherTellsNorHearsAnything) {
  const std::string library = scratch_.File("libhostile.so");
  const std::string pipe = scratch_.File("pipe");
  std::filesystem::copy_file(HOSTILE_POLICY, library);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0666), 0);
  const int both_ends = open(pipe.c_str(), O_RDWR);
  ASSERT_EQ(write(both_ends, "secret", 6), 6);
  for (const std::string& place : {pipe, library, std::string("/dev/null")}) {
    const json verdict = Hostile("writes", {"--parameter", "path=" + place}, library);
    EXPECT_TRUE(verdict["valid"]) << verdict.dump();
  }
  if (!HasNamespaces()) GTEST_SKIP() << "needs user namespaces";
  EXPECT_TRUE(Hostile("hears", {"--parameter", "path=" + pipe}, library)["valid"]);
  close(both_ends);
}

TEST_F(JudgeCommandTest, EachRunIsTheFirstOneForItsPolicy) {
  if (!HasNamespaces()) GTEST_SKIP() << "needs user namespaces";
  const json verdict = VerdictOn(
      HOSTILE_POLICY, {"--rounds", "4", "--hostile", "0", "--parameter", "does=counts its runs"});
  EXPECT_TRUE(verdict["valid"]) << verdict.dump();
}

TEST_F(JudgeCommandTest, RefusesAPolicyWhoseTraitsChange) {
  const json verdict = Hostile("changes its traits");
  EXPECT_EQ(verdict["gate"], "G0");
  EXPECT_EQ(verdict["reason"],
            "the traits of the policy change from one process or run to the next");
}

// Planning is measured from outside: sleep is time, too.
TEST_F(JudgeCommandTest, CountsTheTimeOfPlanning) {
  for (const char* const does : {"works", "sleeps"}) {
    const json verdict = Hostile(does);
    ASSERT_TRUE(verdict["valid"]) << verdict.dump();
    // Half a millisecond of work, or of sleep beyond the one that is not counted.
    EXPECT_GE(verdict["planning_us"]["p50"], 450) << does;
    EXPECT_LT(verdict["charged_score"], verdict["score"]) << does;
    EXPECT_EQ(Hostile(does, {"--budget", "0.1"})["gate"], "G7") << does;
  }
}

// The failure of a library's policy in a run of the small experiment.
TEST_F(JudgeCommandTest, WaitsNoLongerForAnAnswerOrForLoadingThanAllowed) {
  run::SetHostCommand({TWINSERVE, {"twinserve", "judge", "--host"}, {}});
  const auto failure = [&](const char* does, const run::HostOptions& options) {
    PolicyFile file;
    file.path = HOSTILE_POLICY;
    file.parameters = {{"does", does}};
    ExperimentTemplate experiment(scratch_.File("small.textproto"));
    run::RunControl silent;
    try {
      run::PolicyHost host(file, options);
      experiment.ReplacePolicy(host.policy());
      RunObserver& tap = host.BeginRun({.id_shift = 0, .keys = {}}, true);
      (void)run::RunJudged(run::Resolve(experiment.With({}, {})), silent, &tap, "");
    } catch (const run::CandidateFailure& found) {
      EXPECT_EQ(found.kind(), run::FailureKind::kTooSlow);
      return std::string(found.what());
    }
    return std::string();
  };
  run::HostOptions options;
  options.limits.memory_bytes = 0;
  options.patience_s = 2;
  EXPECT_EQ(failure("never answers", options), "gave no answer within 2 s");
  options.loading_s = 0;
  EXPECT_THAT(failure("", options), HasSubstr("allowed in all runs together: 0 s"));
}

TEST_F(JudgeCommandTest, ComparesWithTheDefaultPolicyAndFurtherOnes) {
  const json verdict = VerdictOn(
      kLibrary, {"--rounds", "10", "--metric", "mean_e2el_ms", "--against", "shortest_prompt"});
  EXPECT_EQ(verdict["schema"], "twinserve.verdict/1");
  EXPECT_EQ(verdict["policy"]["language"], "c++");
  EXPECT_TRUE(verdict["valid"]) << verdict.dump();
  EXPECT_EQ(verdict["gate"], nullptr);
  EXPECT_EQ(verdict["judge"]["hostile_worlds"], 20);
  ASSERT_EQ(verdict["against"].size(), 2u);
  EXPECT_EQ(verdict["against"][0]["name"], "default");
  EXPECT_EQ(verdict["against"][0]["verdict"], "better");
  EXPECT_LE(verdict["against"][0]["low"], verdict["against"][0]["ratio"]);
  EXPECT_EQ(verdict["against"][1]["name"], "shortest_prompt");
  EXPECT_NEAR(std::log(verdict["against"][0]["ratio"].get<double>()), verdict["score"], 1e-9);
  // The cost model has bounds, which no policy beats.
  ASSERT_EQ(verdict["bounds"].size(), 1u);
  EXPECT_GE(verdict["bounds"][0]["ratio"], 1);
}

TEST_F(JudgeCommandTest, ThePolicyOfTheReferenceIsNeitherBetterNorWorse) {
  const json verdict = VerdictOn("default", {"--rounds", "10"});
  EXPECT_EQ(verdict["score"], 0);
  EXPECT_EQ(verdict["against"][0]["verdict"], "undecided");
  EXPECT_EQ(verdict["judge"]["sandbox"], "none");
}

TEST_F(JudgeCommandTest, EqualSecretsAndSubmissionsGiveEqualVerdicts) {
  const auto scores = [&](const char* submission) {
    return VerdictOn(kLibrary, {"--submission", submission, "--rounds", "3"})["cells"].dump();
  };
  EXPECT_EQ(scores("1"), scores("1"));
  EXPECT_NE(scores("1"), scores("2"));
}

TEST_F(JudgeCommandTest, SaysWhyAPolicyIsInvalid) {
  struct Case {
    const char* policy;
    const char* gate;
    const char* reason;
  };
  for (const auto& [policy, gate, reason] : {
           Case{FAILING_POLICY, "G1", "hostile world 1 of 20: no"},
           Case{IDLE_POLICY, "G1", "invariant I9 broken"},
           Case{NO_POLICY, "G0", "has no symbol"},
           Case{OTHER_BUILD, "G0", "was compiled for another twinserve"},
           Case{"nowhere.so", "G0", "no such file"},
       }) {
    const json verdict = VerdictOn(policy);
    EXPECT_EQ(verdict["gate"], gate) << verdict.dump();
    EXPECT_THAT(verdict["reason"].get<std::string>(), HasSubstr(reason));
    EXPECT_EQ(verdict["score"], nullptr);
  }
  EXPECT_EQ(VerdictOn(kLibrary, {"--parameter", "tokens_per_step=513"})["gate"], "G6");
}

TEST_F(JudgeCommandTest, WhatAPolicySaysOfItselfIsAVerdictOnItAlone) {
  struct Case {
    const char* lie;
    const char* gate;
    const char* reason;
  };
  for (const auto& [lie, gate, reason] : {
           Case{"step_engine", "G6", "its trait step_engine is \\xff\\xfe\\x0a; allowed in this"},
           Case{"memory_rule", "G6", "its trait memory_rule is everything; allowed in this"},
           Case{"swaps", "G6", "gives no host blocks"},
           Case{"sized", "G6", "its trait sized_for_tokens is 1; allowed in this system: 0 or 512"},
           Case{"context", "G6",
                "its trait context_tokens_max is 100; allowed in this system: 0 or"},
           Case{"sequences", "G6", "its trait sequences_per_step_max is 1000000; allowed"},
           Case{"negative", "G0", "sent no valid message"},
           Case{"overlaps", "G0", "sent no valid message"},
           Case{"drafts", "G0", "policies that set drafts_max"},
           Case{"batch_end", "G0", "policies that set delivery"},
           Case{"throws", "G1", "\\xff\\xfe"},
       }) {
    // The next policy is judged as if it were alone.
    const CommandOutcome outcome =
        Run({"judge", LYING_POLICY, kLibrary, "--parameter", std::string("lie=") + lie,
             "--experiment", "small.textproto", "--seed", "5", "--hostile", "20", "--rounds", "1"});
    const json verdict = json::parse(outcome.out.substr(0, outcome.out.find('\n')), nullptr, false);
    ASSERT_TRUE(verdict.is_object()) << lie << outcome.out << outcome.err;
    EXPECT_EQ(verdict["gate"], gate) << verdict.dump();
    EXPECT_THAT(verdict["reason"].get<std::string>(), HasSubstr(reason));
    EXPECT_EQ(std::ranges::count(outcome.out, '\n'), 2) << lie << outcome.err;
  }
  EXPECT_TRUE(VerdictOn(LYING_POLICY, {"--parameter", "lie=name"})["valid"]);
}

// The process of a policy writes to descriptor 4, which holds the number of the next process where
// the system lets it. What the judge itself has open there stays as it is.
TEST_F(JudgeCommandTest, FilesOfTheJudgeStayAsTheyAre) {
  constexpr int kProcessNumbers = 4;
  Write("open.txt", "text");
  const int kept = fcntl(kProcessNumbers, F_DUPFD, 30);
  const int file = open(scratch_.File("open.txt").c_str(), O_RDWR);
  ASSERT_GE(file, 0);
  dup2(file, kProcessNumbers);
  (void)VerdictOn(kLibrary, {"--rounds", "1"});
  close(file);
  kept >= 0 ? dup2(kept, kProcessNumbers) : close(kProcessNumbers);
  EXPECT_EQ(ReadText(scratch_.File("open.txt")), "text");
}

TEST_F(JudgeCommandTest, EveryFlagOfAQuickLookIsUsedOrRefused) {
  const json verdict =
      VerdictOn(kLibrary, {"--quick", "--rounds", "2", "--against", "sjf_predicted"});
  EXPECT_EQ(verdict["judge"]["hostile_worlds"], 20);
  ASSERT_EQ(verdict["against"].size(), 2u);
  EXPECT_EQ(verdict["against"][0]["pairs"], 2);
  EXPECT_EQ(Run({"judge", "default", "--quick", "--cells", "1"}).exit_code, 2);
  EXPECT_EQ(Run(Line("default", {"--on", "search"})).exit_code, 2);
  EXPECT_THAT(Refusal(Line("default", {"--rounds", "4", "--rounds-max", "3"})),
              HasSubstr("is 3; allowed: 4, the number of --rounds, or more"));
}

TEST_F(JudgeCommandTest, ADrawnSecretIsPrintedAndRepeatsTheVerdict) {
  const auto judged = [&](const std::vector<std::string>& seed) {
    std::vector<std::string> line{"judge", kLibrary, "--experiment", "small.textproto", "--quick"};
    line.insert(line.end(), seed.begin(), seed.end());
    return json::parse(Run(line).out, nullptr, false);
  };
  const json first = judged({});
  const std::string secret = first["judge"]["seed"];
  EXPECT_EQ(secret.size(), 32u);
  EXPECT_EQ(judged({"--seed", secret})["cells"], first["cells"]);
  EXPECT_NE(judged({})["judge"]["seed"], secret);
  EXPECT_EQ(judged({"--seed", "5"})["judge"]["seed"], 5);
}

TEST_F(JudgeCommandTest, RefusesWhatItDoesNotKnowInOneLine) {
  EXPECT_THAT(Refusal({"judge"}), HasSubstr("POLICY is missing; allowed: a file of Python"));
  EXPECT_THAT(Refusal({"judge", "default", "--on", "nowhere"}),
              HasSubstr("is nowhere; allowed: search, judge, or a folder"));
  EXPECT_THAT(Refusal({"judge", "default", "--on", "./nowhere"}), HasSubstr("no such folder"));
  EXPECT_THAT(Refusal(Line("default", {"--against", "best"})),
              AllOf(HasSubstr("is best; allowed: default, "), HasSubstr("sjf_predicted")));
  EXPECT_THAT(Refusal(Line("default", {"--metric", "requests"})),
              HasSubstr("requests is no metric of which more or less is better"));
  EXPECT_THAT(Refusal(Line("default", {"--parameter", "tokens"})), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(Refusal(Line("default", {"--parameter", "tokens=5"})),
              HasSubstr("is of policies in files, which default is not"));
  EXPECT_THAT(Refusal({"judge", "default", "--seed", "x"}),
              HasSubstr("is x; allowed: 0 to 9223372036854775807, or the 32 hexadecimal digits"));
  EXPECT_THAT(Refusal(Line("default", {"--set", "system.replicas=2"})),
              HasSubstr("allowed in judged experiments: 1"));
}

}  // namespace
}  // namespace twin::apps
