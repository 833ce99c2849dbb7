// Which tokenizer a served model gets.
#include "apps/serve/serving_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/input_error.h"

namespace twin::apps {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

ExperimentConfig Experiment(const std::string& world) {
  return ParseExperiment("seed: 5 world { " + world +
                             " } policy { vllm_v1 {} } system { hardware: 'cpu-generic' "
                             "model_shape { layers: 2 hidden: 32 intermediate: 48 query_heads: 4 "
                             "kv_heads: 2 head_dim: 8 vocab: 101 max_position: 128 "
                             "weight_dtype: fp32 kv_dtype: fp32 } }",
                         "test", "/");
}

constexpr const char* kReal = "real { dummy_weights: true }";

TEST(ServingTextTest, AnEmulatedModelWithoutATokenizerHasAStandIn) {
  const ServingText text(Experiment("emulated {}"), {});
  ASSERT_THAT(text.notes(), SizeIs(1));
  EXPECT_THAT(text.notes()[0], HasSubstr("a stand-in with 4.00 characters per token"));
  EXPECT_THAT(text.warnings(), IsEmpty());
  EXPECT_THAT(text.end_tokens(), testing::ElementsAre(100));  // the last one of the vocabulary
}

TEST(ServingTextTest, ARealModelHasOneOnlyWhereTheUserAsks) {
  try {
    const ServingText text(Experiment(kReal), {});
    FAIL() << "it was not refused";
  } catch (const InputError& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_STREQ(error.what(),
                 "system.model: has no tokenizer.json; name one with --tokenizer, or ask for a "
                 "stand-in with --characters-per-token");
  }
  const ServingText text(Experiment(kReal), {.characters_per_token = 5});
  ASSERT_THAT(text.warnings(), SizeIs(1));
  EXPECT_THAT(text.warnings()[0], HasSubstr("a stand-in with 5.00 characters per token"));
  EXPECT_THAT(text.notes(), IsEmpty());
  // 30 characters are 6 pieces of 5, each a token of the model.
  const std::vector<std::int32_t> ids =
      text.tools().tokenizer->Encode("ABCDE-12345-FGHIJ-67890-KLMNOP", true);
  EXPECT_THAT(ids, SizeIs(6));
  EXPECT_THAT(ids, Each(testing::AllOf(testing::Ge(0), testing::Lt(101))));
}

}  // namespace
}  // namespace twin::apps
