// docs/configuration.md is what the schemas say.
#include "config/configuration_page.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "config/default_messages.h"
#include "config/experiment.pb.h"
#include "config/schema_comments.h"

namespace twin {
namespace {

using google::protobuf::Descriptor;
using ::testing::Contains;
using ::testing::HasSubstr;

TEST(ConfigurationPageTest, TheCommittedPageIsCurrent) {
  std::ifstream in(std::string(TWIN_SOURCE_DIR) + "/docs/configuration.md");
  std::ostringstream committed;
  committed << in.rdbuf();
  EXPECT_TRUE(committed.str() == ConfigurationPage())
      << "run: twinserve doctor --list configuration > docs/configuration.md";
}

TEST(ConfigurationPageTest, SaysTypeDefaultRangeAndMeaning) {
  const std::string page = ConfigurationPage();
  EXPECT_THAT(page, HasSubstr("| `chunk_size` | integer | `512` | 1 or more | tokens per step |"));
  EXPECT_THAT(page, HasSubstr("| `utilization` | number | - | above 0 to 1 | Share of the memory"));
  EXPECT_THAT(page, HasSubstr("| `device` | word | `cpu` | `cpu`, `cuda` |"));
  EXPECT_THAT(page, HasSubstr("| `rate` | number | `0` | 0 or more | requests per second |"));
  EXPECT_THAT(page, HasSubstr("- `kind: empirical`: inverse CDF"));
  EXPECT_THAT(page, ::testing::Not(HasSubstr("former name")));
}

// Every message with fields has defaults, unless it only chooses between messages.
void RequireDefaults(const Descriptor& message) {
  static const auto defaults = DefaultMessages();
  bool chooses = message.real_oneof_decl_count() > 0;
  EXPECT_TRUE(chooses || message.field_count() == 0 || defaults.contains(message.full_name()))
      << message.full_name();
  for (int i = 0; i < message.field_count(); ++i) {
    if (message.field(i)->message_type() != nullptr) {
      RequireDefaults(*message.field(i)->message_type());
    }
  }
}

TEST(ConfigurationPageTest, NoMessageIsForgotten) {
  RequireDefaults(*proto::Experiment::descriptor());
}

TEST(ConfigurationPageTest, EveryPolicyAndCostModelIsDescribed) {
  EXPECT_EQ(PolicyChoices().size(),
            static_cast<std::size_t>(proto::Policy::descriptor()->field_count()));
  for (const auto& choices : {PolicyChoices(), CostChoices()}) {
    for (const ConfigurationChoice& choice : choices) {
      EXPECT_FALSE(choice.description.empty()) << choice.name;
    }
  }
  EXPECT_THAT(PolicyChoices()[3].defaults, Contains("enable_prefix_caching: false"));
}

}  // namespace
}  // namespace twin
