#include "apps/profile/profile_measurements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "config/models/model_names.h"
#include "core/input_error.h"
#include "core/random.h"
#include "tests/support/unique_name.h"

namespace twin::run {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

ProfileHeader Header() {
  return {.machine = "a machine, 2 cores",
          .instruction_set = "avx2",
          .threads = 2,
          .commit = "abc",
          .block_size = 16,
          .rounds = 3,
          .model = ModelPreset("gpt2"),
          .limits = {.tokens_max = 64, .context_max = 100, .cache_tokens = 500, .coarse = true}};
}

ProfileRow Row() {
  ProfileRow row{.kind = "step",
                 .name = "mix 4",
                 .round = 1,
                 .size = 3,
                 .totals = {.prefill_tokens = 5,
                            .prefill_items = 1,
                            .prefill_context_tokens = 9,
                            .prefill_attention_pairs = 35,
                            .decode_items = 2,
                            .decode_context_tokens = 70,
                            .emitting_items = 3},
                 .samples = 7,
                 .median_us = 1234.5678,
                 .p10_us = 1200.5,
                 .p90_us = 1300.25};
  row.parts_us = {0, 1.5, 900.25, 300, 0, 20.125, 12.5, 0};
  return row;
}

class ProfileFileTest : public ::testing::Test {
 protected:
  ProfileFileTest()
      : path_(std::filesystem::temp_directory_path() / twin::testing::UniqueName("profile")) {
    ProfileWriter writer(path_, Header(), true);
    writer.Add({Row(), Row()});
  }
  ~ProfileFileTest() override { std::filesystem::remove(path_); }

  [[nodiscard]] std::string Text() const {
    std::ifstream in(path_, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  void Write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }

  // The file with its first `from` replaced.
  void ExpectRefusal(const std::string& from, const std::string& to, const std::string& words) {
    const std::string whole = Text();
    std::string text = whole;
    const std::size_t place = text.find(from);
    ASSERT_NE(place, std::string::npos) << from;
    Write(text.replace(place, from.size(), to));
    EXPECT_THAT([&] { ReadProfile(path_); },
                ThrowsMessage<InputError>(HasSubstr(path_.string() + words)));
    Write(whole);
  }

  std::filesystem::path path_;
};

TEST_F(ProfileFileTest, BucketsOfDecodesStandInItWhereADeviceHasSome) {
  EXPECT_THAT(Text(), ::testing::Not(HasSubstr("decode_buckets")));
  EXPECT_TRUE(ReadProfile(path_).header.decode_buckets.empty());
  ProfileHeader header = Header();
  header.decode_buckets = {1, 2, 8};
  { const ProfileWriter writer(path_, header, true); }
  EXPECT_THAT(Text(), HasSubstr("\n# decode_buckets: 1 2 8\n"));
  EXPECT_EQ(ReadProfile(path_).header.decode_buckets, header.decode_buckets);
  ExpectRefusal(": 1 2 8", ": 2 1 8", ":9: decode_buckets: holds 1; allowed: ascending");
  ExpectRefusal(": 1 2 8", ": 0", ":9: decode_buckets: holds 0");
  ExpectRefusal(": 1 2 8", ": 1 x", ":9: decode_buckets: is \"x\"");
}

TEST_F(ProfileFileTest, GivesBackWhatWasWritten) {
  const Profile profile = ReadProfile(path_);
  EXPECT_EQ(profile.header.model, Header().model);
  EXPECT_EQ(profile.header.limits, Header().limits);
  EXPECT_EQ(profile.header.machine, Header().machine);
  ASSERT_EQ(profile.rows.size(), 2U);
  const ProfileRow& row = profile.rows[1];
  EXPECT_EQ(row.key(), Row().key());
  EXPECT_EQ(row.totals, Row().totals);
  EXPECT_EQ(row.parts_us, Row().parts_us);
  EXPECT_EQ(row.median_us, Row().median_us);
  EXPECT_EQ(row.samples, 7);
}

TEST_F(ProfileFileTest, GoesOnBehindWhatIsThere) {
  ProfileWriter(path_, Header(), false).Add({Row()});
  EXPECT_EQ(ReadProfile(path_).rows.size(), 3U);
}

TEST_F(ProfileFileTest, RefusesDamageNamingLineAndField) {
  ExpectRefusal("# twinserve profile 1", "# twinserve profile 9", ":1: first line: ");
  ExpectRefusal("# threads: 2", "# threads: two", ":4: threads: is \"two\"; allowed: a number");
  ExpectRefusal("# commit", "# comit", ":5: commit: expected here; found");
  ExpectRefusal("# rounds: 3", "# rounds: 0", ":7: rounds: is 0; allowed: 1 to 1000");
  ExpectRefusal("# cache_tokens: 500", "# cache_tokens: 9000000000",
                ":13: cache_tokens: is 9000000000; allowed: 1 to ");
  ExpectRefusal("layers: 12", "layer: 12", ":8: model_shape: ");
  ExpectRefusal("grid: coarse", "grid: rough", ":14: grid: is \"rough\"; allowed: coarse, fine");
  ExpectRefusal("kind,name", "kind,title", ":15: columns: ");
  ExpectRefusal("step,mix 4,1", "steps,mix 4,1", ":16: kind: is \"steps\"; allowed: operation,");
  ExpectRefusal("1234.5678", "nan", ":16: median_us: is \"nan\"");
  ExpectRefusal("1234.5678", "-3", ":16: median_us: is \"-3\"; allowed: a number, 0 or more");
  ExpectRefusal("1200.5000,", "", ":16: decode_probe_us: the line has fewer fields");
  ExpectRefusal("1200.5000,", "1,2,", ":16: prefill_probe_us: the line has more fields");
  ExpectRefusal(",9,35,", ",9,35.5,", ":16: prefill_attention_pairs: ");
}

TEST_F(ProfileFileTest, RefusesAFileCutShortAnywhere) {
  const std::string whole = Text();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    Write(whole.substr(0, size));
    // Between the lines behind the columns, fewer rows are a whole file.
    const bool whole_lines =
        size > 0 && whole[size - 1] == '\n' && whole.find("kind,name") < size - 1;
    if (whole_lines) {
      EXPECT_LT(ReadProfile(path_).rows.size(), 2U);
    } else {
      EXPECT_THROW(ReadProfile(path_), InputError) << size;
    }
  }
}

TEST_F(ProfileFileTest, GoesOnInThePlaceOfARowThatWasCutShort) {
  const std::string whole = Text();
  const std::size_t first_row_end = whole.rfind('\n', whole.size() - 2) + 1;
  for (std::size_t size = first_row_end; size < whole.size(); ++size) {
    Write(whole.substr(0, size));
    EXPECT_EQ(ReadProfile(path_, UnfinishedRow::kLeftOut).rows.size(), 1U);
    ProfileWriter(path_, Header(), false).Add({Row()});
    EXPECT_EQ(Text(), whole) << size;
  }
  // What is no row is no less damaged.
  Write(whole.substr(0, whole.find("kind,name") + 4));
  EXPECT_THROW(ReadProfile(path_, UnfinishedRow::kLeftOut), InputError);
}

TEST_F(ProfileFileTest, DamagedBytesAreRefusedOrReadButNeverCrash) {
  const std::string whole = Text();
  Random random(5, "profile_damage");
  for (int i = 0; i < 3000; ++i) {
    std::string text = whole;
    for (int change = 0; change < 3; ++change) {
      const auto place = static_cast<std::size_t>(
          random.UniformInt(0, static_cast<std::int64_t>(text.size()) - 1));
      text[place] = static_cast<char>(random.UniformInt(0, 255));
    }
    Write(text);
    try {
      ReadProfile(path_);
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

TEST_F(ProfileFileTest, SaysWhatDiffersFromAFileThatIsToGoOn) {
  ProfileHeader other = Header();
  other.threads = 1;
  EXPECT_THAT([&] { RequireSameHeader(path_, Header(), other); },
              ThrowsMessage<InputError>(
                  HasSubstr("threads: the file was begun with 2, this is 1; allowed: the same")));
  other = Header();
  other.model.weight_dtype = DType::kInt8;
  EXPECT_THAT([&] { RequireSameHeader(path_, Header(), other); },
              ThrowsMessage<InputError>(HasSubstr("model_shape")));
  other = Header();
  other.limits.coarse = false;
  EXPECT_THAT([&] { RequireSameHeader(path_, Header(), other); },
              ThrowsMessage<InputError>(HasSubstr("grid")));
  other = Header();
  other.limits.tokens_max = 1;  // what the machine could reach that time
  RequireSameHeader(path_, Header(), other);
}

TEST(ProfileFilesTest, RefusesWhatIsNoFile) {
  EXPECT_THAT([] { ReadProfile("/nonexistent.csv"); },
              ThrowsMessage<InputError>(HasSubstr("/nonexistent.csv: cannot be read")));
  EXPECT_THAT([] { ReadProfile("/"); }, ThrowsMessage<InputError>(HasSubstr("cannot be read")));
}

}  // namespace
}  // namespace twin::run
