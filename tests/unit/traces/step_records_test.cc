// Records of steps as servers publish them, and damage to them.
//
// step_records.jsonl is the run of tests/unit/apps/measured_files.h on a server that computes
// prompts in 20 ms, or in 10 ms beside a decode, and decodes in 12.5 ms. The prompts have 100
// tokens, the answers 5.
//
//   counter   1: the first prompt; the second request waits
//   counter   2: the first decode of the first request, whose cache holds 101 tokens, and the
//                second prompt
//   counter   3 to 5: both decode, with 102 + 101, 103 + 102 and 104 + 103 tokens
//   counter   6: the last decode of the second request
//   counter   7: nothing to do
//   counter   8 to 12: the third request alone
#include "traces/step_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "core/input_error.h"
#include "tests/unit/traces/trace_samples.h"

namespace twin {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Sample() {
  return ReadText(std::string(TWIN_SOURCE_DIR) + "/tests/unit/traces/step_records.jsonl");
}

class StepRecordsTest : public ::testing::Test {
 protected:
  StepRecords Read(const std::string& text) {
    const std::string path = scratch_.File("steps.jsonl");
    std::ofstream(path, std::ios::binary) << text;
    return ReadStepRecords(std::vector<std::string>{path});
  }
  // The error of a text, without the folder of the file.
  std::string Error(const std::string& text) {
    try {
      Read(text);
    } catch (const InputError& error) {
      const std::string what = error.what();
      EXPECT_EQ(what.find('\n'), std::string::npos) << what;
      EXPECT_THAT(what, StartsWith(scratch_.path().string()));
      return what.substr(scratch_.path().string().size() + 1);
    }
    return "no error";
  }

  ScratchDirectory scratch_{"step_records"};
};

// A record of one prompt of 100 tokens, with `change` in place of the text `old`.
std::string Changed(const std::string& old, const std::string& change) {
  std::string line = Sample();
  line.resize(line.find('\n') + 1);
  const std::size_t at = line.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return line.replace(at, old.size(), change);
}

TEST_F(StepRecordsTest, ReadsCompositionQueueAndTime) {
  const StepRecords read = Read(Sample());
  ASSERT_EQ(read.records.size(), 12u);
  EXPECT_EQ(read.workers, std::vector<std::string>{"7 rank 0"});
  EXPECT_FALSE(read.device_times);
  const StepRecord& mixed = read.records[1];
  EXPECT_EQ(mixed.counter, 2);
  EXPECT_EQ(mixed.time, milliseconds(10));
  EXPECT_EQ(mixed.prefill_requests, 1);
  EXPECT_EQ(mixed.prefill_tokens, 100);
  EXPECT_EQ(mixed.prefill_kv_tokens, 0);
  EXPECT_EQ(mixed.decode_requests, 1);
  EXPECT_EQ(mixed.decode_kv_tokens, 101);
  EXPECT_EQ(mixed.queued, 0);
  EXPECT_EQ(read.records[0].queued, 1);
  EXPECT_EQ(read.records[2].time, microseconds(12500));
  EXPECT_EQ(read.records[2].decode_kv_variance, 0.25);
  EXPECT_FALSE(mixed.observed.has_value());
  EXPECT_TRUE(read.records[6].is_idle());
  EXPECT_THAT(read.PlaceOf(read.records[6]), EndsWith("steps.jsonl:7"));
}

// The envelope of Dynamo's trace: a worker is named by its component, too.
TEST_F(StepRecordsTest, ReadsTheTraceOfDynamo) {
  const auto wrapped = [](const char* component, int milliseconds) {
    std::string record = Changed("\n", "");
    return R"({"timestamp": 5, "event": {"schema": "dynamo.fpm.trace.v1", "source": )"
           R"({"namespace": "dynamo", "component": ")" +
           std::string(component) + R"("}, "capture_mode": "full", "observed_at_unix_ms": )" +
           std::to_string(milliseconds) + R"(, "fpm": )" + record + "}}\n";
  };
  const StepRecords read = Read(wrapped("backend", 1700) + wrapped("prefill", 1800));
  ASSERT_EQ(read.records.size(), 2u);
  EXPECT_EQ(read.records[0].observed, TimePoint{milliseconds(1700)});
  EXPECT_EQ(read.workers,
            (std::vector<std::string>{"dynamo/backend/7 rank 0", "dynamo/prefill/7 rank 0"}));
  EXPECT_EQ(read.records[1].worker, 1u);
}

TEST_F(StepRecordsTest, ATimingScopeNamesTheDevice) {
  EXPECT_TRUE(Read(Changed("\"wall_time\"",
                           "\"timing_scope\": \"execute_model_cuda\", "
                           "\"wall_time\""))
                  .device_times);
  EXPECT_THAT(Error(Changed("\"wall_time\"", "\"timing_scope\": \"host\", \"wall_time\"")),
              HasSubstr("steps.jsonl:1: timing_scope: found '\"host\"'; allowed: "
                        "execute_model_cuda"));
}

// A rotated trace has several files; counters go on from one to the next.
TEST_F(StepRecordsTest, SeveralFilesAreOneList) {
  const std::string text = Sample();
  const std::size_t half = text.find('\n', text.size() / 2) + 1;
  const std::vector<std::string> paths = {scratch_.File("0.jsonl"), scratch_.File("1.jsonl")};
  std::ofstream(paths[0], std::ios::binary) << text.substr(0, half);
  std::ofstream(paths[1], std::ios::binary) << text.substr(half);
  const StepRecords read = ReadStepRecords(paths);
  ASSERT_EQ(read.records.size(), 12u);
  EXPECT_THAT(read.PlaceOf(read.records.back()), EndsWith("1.jsonl:6"));
  const std::vector<std::string> backwards = {paths[1], paths[0]};
  try {
    ReadStepRecords(backwards);
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("0.jsonl:1: counter_id: found '1'; allowed: above 12, that "
                                        "of this worker's record before"));
  }
}

TEST_F(StepRecordsTest, NamesLineFieldAndWhatIsAllowed) {
  const auto error = [&](const std::string& old, const std::string& change) {
    return Error(Changed(old, change));
  };
  EXPECT_THAT(error("\"counter_id\": 1", "\"counter_id\": -1"),
              StartsWith("steps.jsonl:1: counter_id: found '-1'; allowed: an integer from 0 to "));
  EXPECT_THAT(error("\"counter_id\": 1, ", ""),
              StartsWith("steps.jsonl:1: counter_id: missing, or null; allowed: an integer from"));
  EXPECT_THAT(error("\"version\": 1", "\"version\": 2"),
              StartsWith("steps.jsonl:1: version: found '2'; allowed: 1"));
  EXPECT_THAT(error("\"wall_time\": 0.02", "\"wall_time\": \"fast\""),
              Eq("steps.jsonl:1: wall_time: found '\"fast\"'; allowed: seconds from 0 to 1000"));
  EXPECT_THAT(error("\"wall_time\": 0.02, ", ""),
              StartsWith("steps.jsonl:1: wall_time: missing, or null; allowed: seconds from 0"));
  EXPECT_THAT(error("\"wall_time\": 0.02", "\"wall_time\": 0"),
              StartsWith("steps.jsonl:1: wall_time: found '0'; allowed: above 0 in a record with "
                         "scheduled requests"));
  EXPECT_THAT(error("\"num_prefill_requests\": 1", "\"num_prefill_requests\": 1.5"),
              StartsWith("steps.jsonl:1: scheduled_requests.num_prefill_requests: found '1.5'; "
                         "allowed: an integer from 0 to 100000"));
  EXPECT_THAT(error("\"num_prefill_requests\": 1", "\"num_prefill_requests\": 0"),
              StartsWith("steps.jsonl:1: scheduled_requests.sum_prefill_tokens: found '100'; "
                         "allowed: 0, as scheduled_requests.num_prefill_requests"));
  EXPECT_THAT(error("\"num_decode_requests\": 0", "\"num_decode_requests\": 3"),
              StartsWith("steps.jsonl:1: scheduled_requests.sum_decode_kv_tokens: found '0'; "
                         "allowed: at least 1 for each of scheduled_requests.num_decode_requests"));
  EXPECT_THAT(error("\"sum_decode_kv_tokens\": 0", "\"sum_decode_kv_tokens\": 5"),
              StartsWith("steps.jsonl:1: scheduled_requests.sum_decode_kv_tokens: found '5'; "
                         "allowed: 0, as scheduled_requests.num_decode_requests"));
  EXPECT_THAT(error("\"sum_prefill_tokens\": 100", "\"sum_prefill_tokens\": 2000000000"),
              StartsWith("steps.jsonl:1: scheduled_requests.sum_prefill_tokens: found "
                         "'2000000000'; allowed: an integer from 0 to 1073741823"));
  EXPECT_THAT(error("\"num_decode_requests\": 0, \"sum_decode_kv_tokens\": 0",
                    "\"num_decode_requests\": 1, \"sum_decode_kv_tokens\": 2000000000"),
              StartsWith("steps.jsonl:1: scheduled_requests.sum_decode_kv_tokens: found "
                         "'2000000000'; allowed: at most 1073741823 for each of"));
  EXPECT_THAT(error("\"var_decode_kv_tokens\": 0", "\"var_decode_kv_tokens\": -2"),
              StartsWith("steps.jsonl:1: scheduled_requests.var_decode_kv_tokens: found '-2"));
  EXPECT_THAT(
      error("\"queued_requests\": {\"num_prefill_requests\": 1, ", "\"queued_requests\": {"),
      StartsWith("steps.jsonl:1: queued_requests.num_prefill_requests: missing, or null"));
  EXPECT_THAT(error("\"scheduled_requests\"", "\"scheduled\""),
              AllOf(StartsWith("steps.jsonl:1: scheduled_requests: missing, or null; allowed: "
                               "ForwardPassMetrics"),
                    HasSubstr("--fpm-trace")));
  EXPECT_THAT(Error(Sample() + Changed("\"counter_id\": 1", "\"counter_id\": 12")),
              StartsWith("steps.jsonl:13: counter_id: found '12'; allowed: above 12"));
  EXPECT_THAT(Error("Iteration(5): 0 context requests, 20 generation requests\n"),
              StartsWith("steps.jsonl:1: byte 1: found 'Iteration(5)"));
  EXPECT_THAT(Error(Sample().substr(0, 300)), StartsWith("steps.jsonl:1: byte 301: found"));
}

TEST_F(StepRecordsTest, AFileWithoutStepsIsRefused) {
  EXPECT_THAT(Error(""), StartsWith("steps.jsonl: has no step; allowed: ForwardPassMetrics"));
  const std::string text = Sample();
  std::size_t begin = 0;
  for (int line = 1; line < 7; ++line) begin = text.find('\n', begin) + 1;
  const std::string idle = text.substr(begin, text.find('\n', begin) + 1 - begin);
  EXPECT_THAT(Error(idle), StartsWith("steps.jsonl: has no step"));
}

// SGLang counts the tokens of a batch apart from its requests.
TEST_F(StepRecordsTest, PromptsWithoutTokensAreRead) {
  const StepRecords read =
      Read(Changed("\"sum_prefill_tokens\": 100, \"var", "\"sum_prefill_tokens\": 0, \"var"));
  EXPECT_FALSE(read.records[0].has_tokens());
  EXPECT_TRUE(Read(Sample()).records[0].has_tokens());
}

// A queue that is not recorded is no empty one.
TEST_F(StepRecordsTest, QueuesMayBeMissing) {
  EXPECT_EQ(Read(Changed("\"queued_requests\"", "\"others\"")).records[0].queued, std::nullopt);
}

// A byte that is another one: the file is read, or refused with its line.
TEST_F(StepRecordsTest, EveryDamagedByteIsReadOrRefusedWithALine) {
  std::string text = Sample();
  text.resize(text.find('\n', text.find('\n') + 1) + 1);
  int refused = 0;
  int accepted = 0;
  for (std::size_t at = 0; at < text.size(); at += 3) {
    for (const char other : {'9', '-', '"', '}', '\0'}) {
      std::string damaged = text;
      damaged[at] = other;
      const std::string error = Error(damaged);
      if (error == "no error") {
        ++accepted;
        continue;
      }
      ++refused;
      EXPECT_THAT(error, AllOf(StartsWith("steps.jsonl:"), HasSubstr("allowed: "))) << at;
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(accepted, 50);
}

}  // namespace
}  // namespace twin
