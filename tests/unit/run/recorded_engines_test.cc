// The engines that a record's header asks for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/input_error.h"
#include "run/deployed_groups.h"
#include "run/files/record_file.h"

namespace twin::run {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const ExperimentConfig& config, const RecordHeader& header) {
  try {
    (void)EnginesOf(config, header);
  } catch (const InputError& error) {
    EXPECT_EQ(error.exit_code(), 1);
    return error.what();
  }
  return "accepted";
}

// Each cache alone is one that a configuration may have.
TEST(RecordedEnginesTest, BlocksOfAllReplicasAreBounded) {
  ExperimentConfig config;
  RecordHeader header;
  header.engine.kv = {.block_size = 16, .blocks = 1'000'000};
  EXPECT_EQ(ErrorOf(config, header), "accepted");
  config.system.replicas = 10'000;
  EXPECT_THAT(ErrorOf(config, header), HasSubstr("have 10000000000 blocks or more; allowed: "
                                                 "2147483647 blocks in all"));
  header.engine.kv = {.block_size = 16, .blocks = 1, .host_blocks = 1'000'000};
  EXPECT_THAT(ErrorOf(config, header), HasSubstr("have 10000000000 blocks or more"));
}

TEST(RecordedEnginesTest, SoAreThoseOfGroups) {
  ExperimentConfig config;
  RecordHeader header;
  for (int i = 0; i < 30; ++i) {
    config.system.groups.emplace_back().count = 1;
    header.groups.push_back({1, {.kv = {.block_size = 16, .blocks = 100'000'000}}});
  }
  EXPECT_THAT(ErrorOf(config, header), HasSubstr("have 2200000000 blocks or more"));
}

}  // namespace
}  // namespace twin::run
