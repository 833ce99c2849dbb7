// The families of config.json: their table, and that of docs/models.md.
#include "config/models/families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace twin {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ModelFamiliesTest, EachNameStandsOnceAndIsReadInOneWay) {
  std::set<std::string_view> names;
  for (const ModelFamily& family : ModelFamilies()) {
    EXPECT_TRUE(names.insert(family.model_type).second) << family.model_type;
    const int ways = (family.is_plain() ? 1 : 0) + (family.is_layered() ? 1 : 0) +
                     (family.refused.empty() ? 0 : 1);
    EXPECT_EQ(ways, 1) << family.model_type;
    EXPECT_EQ(FindModelFamily(family.model_type), &family);
  }
  EXPECT_EQ(FindModelFamily("spirograph"), nullptr);
}

TEST(ModelFamiliesTest, NamesAreThoseThatCanBeReadOrComputed) {
  EXPECT_EQ(PlainFamilyNames(),
            "llama, mistral, qwen2, qwen3, phi3, gemma2, granite, gpt2, opt, mixtral, qwen2_moe, "
            "qwen3_moe");
  EXPECT_EQ(ComputedLayeredNames(),
            "deepseek_v2, deepseek_v3, kimi_k2, minimax_m2, gpt_oss, qwen3_next, olmo2");
  EXPECT_THAT(ModelFamilyNames(), HasSubstr(PlainFamilyNames() + ", deepseek_v2, "));
  EXPECT_THAT(ModelFamilyNames(), Not(HasSubstr("jamba")));
}

TEST(ModelFamiliesTest, TheTableHasARowForFamiliesThatCountAlike) {
  const std::string table = ModelFamilyTable();
  EXPECT_THAT(table, HasSubstr("| `deepseek_v2`, `deepseek_v3`, `kimi_k2`, `minimax_m2`, "
                               "`gpt_oss`, `qwen3_next`, `olmo2` | exact | CPU |\n"));
  EXPECT_THAT(table, HasSubstr("`qwen2_moe`, `qwen3_moe` | exact | CPU, CUDA |\n"));
  EXPECT_THAT(table, HasSubstr("`bailing_hybrid` (Ling 3), "));
  EXPECT_THAT(table, HasSubstr("| `bloom` | approximate: without the norm behind the embedding | "
                               "- |\n"));
  EXPECT_THAT(table, HasSubstr("| `jamba`, `mamba` | refused: Mamba-1 layers are not modelled; "
                               "use a model with Mamba-2, as nemotron_h | - |\n"));
}

TEST(ModelFamiliesTest, ThePageHasTheTable) {
  std::ifstream in(std::string(TWIN_SOURCE_DIR) + "/docs/models.md");
  std::ostringstream page;
  page << in.rdbuf();
  EXPECT_NE(page.str().find("\n" + ModelFamilyTable()), std::string::npos)
      << "CONTRIBUTING.md says how to regenerate the table of model families";
}

}  // namespace
}  // namespace twin
