#include "run/files/record_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <system_error>
#include <vector>

#include "core/input_error.h"
#include "run/record/plan_digest.h"
#include "run/record/recorded_run.h"
#include "tests/unit/run/files/random_run.h"

namespace twin {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class RecordFileTest : public ::testing::TestWithParam<Compression> {
 protected:
  RecordFileTest() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = test->name();
    std::replace(name.begin(), name.end(), '/', '_');
    folder_ = fs::temp_directory_path() / ("record_file_test_" + name + std::to_string(::getpid()));
    fs::create_directories(folder_);
    path_ = folder_ / "record.pb";
  }
  ~RecordFileTest() override { fs::remove_all(folder_); }

  static RecordHeader Header() {
    RecordHeader header;
    header.config = "seed: 7\nname: \"a\"\n";
    header.seed = 7;
    header.version = "0.1.0";
    header.policy = "vllm_v1";
    header.delivery = Delivery::kBatchEnd;
    header.engine.kv = {16, 1000, 200, ReleaseOrder::kKeylessFront};
    header.engine.plans_per_instant_max = 1;
    header.groups = {{2, header.engine}, {3, header.engine}};
    header.groups[1].engine.kv.blocks = 500;
    header.groups[1].engine.prompt_tokens_max = 64;
    header.groups[1].engine.kv.key_tokens = 4;
    return header;
  }

  void WriteRun(RunObserver& beside, int instants) {
    RecordWriter writer(path_, Header(), GetParam());
    RandomRun(3).TellTo(beside, instants);
    RandomRun(3).TellTo(writer, instants);
    writer.Finish();
  }

  std::string Bytes() {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void SetBytes(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }

  // Reads the file to its end. The error, or empty.
  std::string ErrorOfReading() {
    try {
      RecordReader reader(path_);
      Instant instant;
      while (reader.NextInstant(instant)) {
        while (reader.NextPlan() != nullptr) {
        }
      }
    } catch (const InputError& error) {
      EXPECT_EQ(error.exit_code(), 1);
      return error.what();
    }
    return "";
  }

  fs::path folder_;
  fs::path path_;
};

void ExpectSameEvent(const Event& a, const Event& b) {
  ASSERT_EQ(a.index(), b.index());
  if (const auto* finished = std::get_if<StepFinished>(&a)) {
    const auto& other = std::get<StepFinished>(b);
    EXPECT_EQ(finished->step, other.step);
    EXPECT_EQ(finished->started, other.started);
    EXPECT_TRUE(std::ranges::equal(finished->outcomes, other.outcomes));
    EXPECT_TRUE(std::ranges::equal(finished->filled, other.filled));
  } else if (const auto* cancelled = std::get_if<RequestCancelled>(&a)) {
    EXPECT_EQ(cancelled->request, std::get<RequestCancelled>(b).request);
    EXPECT_EQ(cancelled->answered, std::get<RequestCancelled>(b).answered);
  } else if (const auto* arrived = std::get_if<RequestArrived>(&a)) {
    const Request& one = arrived->request;
    const Request& other = std::get<RequestArrived>(b).request;
    EXPECT_EQ(one.id, other.id);
    EXPECT_EQ(one.arrival, other.arrival);
    EXPECT_EQ(one.prompt_tokens, other.prompt_tokens);
    EXPECT_EQ(one.max_output_tokens, other.max_output_tokens);
    EXPECT_EQ(one.priority, other.priority);
    EXPECT_EQ(one.tenant, other.tenant);
    EXPECT_EQ(one.predicted_output_tokens, other.predicted_output_tokens);
    EXPECT_TRUE(std::ranges::equal(one.prefix_keys, other.prefix_keys));
  }
}

TEST_P(RecordFileTest, GivesBackEveryInstantAndPlan) {
  RecordedRun run;
  WriteRun(run, 300);
  RecordReader reader(path_);
  RecordedRunSource expected(run);
  Instant instant;
  Instant wanted;
  std::uint64_t plans = 0;
  while (expected.NextInstant(wanted)) {
    ASSERT_TRUE(reader.NextInstant(instant));
    EXPECT_EQ(instant.now, wanted.now);
    ASSERT_EQ(instant.events.size(), wanted.events.size());
    for (std::size_t i = 0; i < wanted.events.size(); ++i) {
      ExpectSameEvent(instant.events[i], wanted.events[i]);
    }
    while (const StepPlan* plan = expected.NextPlan()) {
      const StepPlan* read = reader.NextPlan();
      ASSERT_NE(read, nullptr);
      EXPECT_EQ(*read, *plan);
      ++plans;
    }
    EXPECT_EQ(reader.NextPlan(), nullptr);
  }
  EXPECT_FALSE(reader.NextInstant(instant));
  EXPECT_EQ(reader.NextPlan(), nullptr);
  EXPECT_EQ(reader.end().instants, 300u);
  EXPECT_EQ(reader.end().plans, plans);
  EXPECT_GT(plans, 100u);
}

TEST_P(RecordFileTest, CarriesTheHeaderAndTheDigest) {
  PlanDigest digest;
  WriteRun(digest, 50);
  RecordReader reader(path_);
  const RecordHeader& header = reader.header();
  EXPECT_EQ(header.config, Header().config);
  EXPECT_EQ(header.seed, 7u);
  EXPECT_EQ(header.version, "0.1.0");
  EXPECT_EQ(header.policy, "vllm_v1");
  EXPECT_EQ(header.delivery, Delivery::kBatchEnd);
  EXPECT_EQ(header.engine.kv, Header().engine.kv);
  EXPECT_EQ(header.engine.plans_per_instant_max, 1);
  ASSERT_EQ(header.groups.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const EngineGroup expected = Header().groups[i];
    EXPECT_EQ(header.groups[i].replicas, expected.replicas);
    EXPECT_EQ(header.groups[i].engine.kv, expected.engine.kv);
    EXPECT_EQ(header.groups[i].engine.plans_per_instant_max, 1);
    EXPECT_EQ(header.groups[i].engine.prompt_tokens_max, expected.engine.prompt_tokens_max);
  }
  Instant instant;
  while (reader.NextInstant(instant)) {  // passes over the plans
  }
  EXPECT_EQ(reader.end().digest, digest.value());
}

TEST_P(RecordFileTest, AppearsOnlyWhenItIsFinished) {
  {
    RecordWriter writer(path_, Header(), GetParam());
    RandomRun(3).TellTo(writer, 10);
    EXPECT_FALSE(fs::exists(path_));
    EXPECT_FALSE(fs::is_empty(folder_));
  }
  EXPECT_TRUE(fs::is_empty(folder_)) << "an unfinished record is removed";
}

TEST_P(RecordFileTest, RefusesARecordCutOffAnywhere) {
  PlanDigest unused;
  WriteRun(unused, 6);
  const std::string bytes = Bytes();
  ASSERT_GT(bytes.size(), 100u);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    SetBytes(bytes.substr(0, size));
    // All of a gzip file but its trailer and end mark holds every frame: nothing is lost.
    const bool whole = GetParam() == Compression::kGzip && size + 10 >= bytes.size();
    EXPECT_TRUE(whole || !ErrorOfReading().empty()) << size;
  }
}

// What a killed process leaves: whole instants with all their plans, and no others.
TEST_P(RecordFileTest, ReadsWhatIsThereOfARecordWithoutEnd) {
  RecordedRun run;
  WriteRun(run, 12);
  const std::string bytes = Bytes();
  std::size_t most = 0;
  for (std::size_t size = bytes.size() / 4; size < bytes.size(); size += 7) {
    SetBytes(bytes.substr(0, size));
    RecordReader reader(path_, RecordReader::WithoutEnd::kReadWhatIsThere);
    PlanDigest digest;
    Instant instant;
    std::size_t instants = 0;
    while (reader.NextInstant(instant)) {
      const RecordedRun::Moment& moment = run.moments()[instants++];
      ASSERT_EQ(instant.now, moment.now);
      for (const StepPlan& plan : moment.plans) {
        const StepPlan* const read = reader.NextPlan();
        ASSERT_NE(read, nullptr) << size;
        EXPECT_EQ(*read, plan);
        digest.OnPlan(moment.now, plan);
      }
      ASSERT_EQ(reader.NextPlan(), nullptr) << size;
    }
    EXPECT_EQ(reader.end().digest, digest.value());
    EXPECT_EQ(reader.end().instants, instants);
    EXPECT_TRUE(instants < 12 || reader.complete());
    most = std::max(most, instants);
  }
  EXPECT_GE(most, 10u);
}

TEST_P(RecordFileTest, GrowsUnderItsNameIfAskedAndOutlivesItsWriter) {
  RecordedRun run;
  {
    RecordWriter writer(path_, Header(), GetParam(), OutputFile::Appearance::kAtOnce);
    RandomRun(3).TellTo(run, 20);
    RandomRun(3).TellTo(writer, 20);
    writer.Flush();
    RecordReader reader(path_, RecordReader::WithoutEnd::kReadWhatIsThere);
    Instant instant;
    while (reader.NextInstant(instant)) {
    }
    EXPECT_EQ(reader.end().instants, 19u);
    EXPECT_FALSE(reader.complete());
  }
  EXPECT_TRUE(fs::exists(path_));
}

TEST_P(RecordFileTest, KeepsRefusedRequestsInTheirPlace) {
  const RefusedRequest first{.time = TimePoint{Duration{5}},
                             .prompt_tokens = 7,
                             .max_output_tokens = 9,
                             .priority = -2,
                             .tenant = 3,
                             .session = 4};
  const RefusedRequest last{.time = TimePoint{Duration{6}}, .prompt_tokens = 1, .draining = true};
  {
    RecordWriter writer(path_, Header(), GetParam());
    writer.OnRefused(first);
    RandomRun(3).TellTo(writer, 10);
    writer.OnRefused(last);
    writer.Finish();
  }
  RecordReader reader(path_);
  std::vector<RefusedRequest> refused;
  reader.ListenToRefusals([&](const RefusedRequest& one) { refused.push_back(one); });
  Instant instant;
  ASSERT_TRUE(reader.NextInstant(instant));
  EXPECT_EQ(refused, std::vector<RefusedRequest>{first});
  while (reader.NextInstant(instant)) {
  }
  EXPECT_EQ(refused, (std::vector<RefusedRequest>{first, last}));
  EXPECT_EQ(reader.end().instants, 10u);
}

TEST_P(RecordFileTest, SaysThatATruncatedRecordIsTruncated) {
  PlanDigest unused;
  WriteRun(unused, 200);
  const std::string bytes = Bytes();
  SetBytes(bytes.substr(0, bytes.size() / 2));
  EXPECT_THAT(ErrorOfReading(), HasSubstr("record.pb: frame "));
  EXPECT_THAT(ErrorOfReading(), HasSubstr("truncated"));
}

TEST_P(RecordFileTest, RefusesOrIsUntouchedByEveryFlippedBit) {
  RecordedRun run;
  WriteRun(run, 4);
  const std::string bytes = Bytes();
  int refused = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    SetBytes(damaged);
    refused += ErrorOfReading().empty() ? 0 : 1;
  }
  // Fields of the gzip header (time, system) and its trailer carry nothing.
  const int spared = GetParam() == Compression::kGzip ? 20 : 0;
  EXPECT_GE(refused + spared, static_cast<int>(bytes.size()));
}

TEST_P(RecordFileTest, RefusesWhatIsNoRecord) {
  SetBytes("time,tokens\n0,12\n");
  EXPECT_NE(ErrorOfReading(), "");
  fs::remove(path_);
  EXPECT_THAT(ErrorOfReading(), HasSubstr("cannot be read"));
}

// A FIFO without a writer held up the call for ever.
TEST_P(RecordFileTest, RefusesWhatIsNoRegularFile) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(ErrorOfReading(), HasSubstr("record.pb: cannot be read: it is no regular file"));
}

// The bookkeeping of 2^31 blocks takes gigabytes.
TEST_P(RecordFileTest, RefusesACacheThatNoConfigurationCanHave) {
  for (const auto wrong : {&KvPoolConfig::blocks, &KvPoolConfig::host_blocks}) {
    RecordHeader header = Header();
    header.engine.kv.*wrong = std::numeric_limits<std::int32_t>::max();
    RecordWriter(path_, header, GetParam()).Finish();
    EXPECT_THAT(ErrorOfReading(), HasSubstr("a KV cache or limits of impossible size"));
    header = Header();
    header.groups[1].engine.kv.*wrong = std::numeric_limits<std::int32_t>::max();
    RecordWriter(path_, header, GetParam()).Finish();
    EXPECT_THAT(ErrorOfReading(), HasSubstr("a KV cache or limits of impossible size"));
  }
}

TEST_P(RecordFileTest, SaysWhereItCannotWrite) {
  try {
    RecordWriter writer(folder_ / "missing" / "record.pb", Header(), GetParam());
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("record.pb: cannot be written: No such file"));
  }
}

INSTANTIATE_TEST_SUITE_P(Compressions, RecordFileTest,
                         ::testing::Values(Compression::kNone, Compression::kGzip));

}  // namespace
}  // namespace twin
