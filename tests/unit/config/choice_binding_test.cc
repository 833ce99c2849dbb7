// Every member of a oneof of the configuration has its row in the binding: without one, reading it
// would silently give the variant's default.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <variant>

#include "config/experiment.pb.h"
#include "config/hand_bindings.h"

namespace twin {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::OneofDescriptor;

template <class Message, class Choice>
void ExpectARowForEveryMember(std::size_t alternatives, Choice read) {
  const OneofDescriptor& members = *Message::descriptor()->FindOneofByName("kind");
  for (int i = 0; i < members.field_count(); ++i) {
    const FieldDescriptor& member = *members.field(i);
    Message message;
    message.GetReflection()->MutableMessage(&message, &member);
    FromMessage from(message);
    Bind(from, read);
    Message written;
    ToMessage to(written);
    Bind(to, read);
    const FieldDescriptor* const found =
        written.GetReflection()->GetOneofFieldDescriptor(written, &members);
    ASSERT_NE(found, nullptr) << member.full_name();
    EXPECT_EQ(found->name(), member.name());
  }
  EXPECT_EQ(alternatives, static_cast<std::size_t>(members.field_count()));
}

struct AnyPolicy {
  PolicyConfig registered;
  std::optional<PolicyFile> file;
};

template <class Archive>
void Bind(Archive& fields, AnyPolicy& policy) {
  ChosenPolicy chosen{policy.registered, policy.file};
  Bind(fields, chosen);
}

// The schema has a member for each policy of the registry, and one for a file.
TEST(ChoiceBindingTest, EveryPolicyOfTheSchemaIsRead) {
  ExpectARowForEveryMember<proto::Policy>(PolicyNames().size() + 1, AnyPolicy{});
}

TEST(ChoiceBindingTest, EveryCostModelOfTheSchemaIsRead) {
  ExpectARowForEveryMember<proto::Cost>(sim::DefaultCostConfigs().size(), sim::CostConfig{});
}

TEST(ChoiceBindingTest, EveryWorldOfTheSchemaIsRead) {
  ExpectARowForEveryMember<proto::World>(std::variant_size_v<WorldConfig>, WorldConfig{});
}

// The schema's words are the rules' own names, by which policies ask for them.
TEST(ChoiceBindingTest, EveryMemoryRuleOfTheSchemaIsReadUnderItsName) {
  const google::protobuf::EnumDescriptor& rules = *proto::Memory::Rule_descriptor();
  for (int i = 0; i < rules.value_count(); ++i) {
    proto::Memory message;
    message.set_rule(static_cast<proto::Memory::Rule>(rules.value(i)->number()));
    sim::MemoryConfig config;
    FromMessage fields(message);
    Bind(fields, config);
    EXPECT_EQ(sim::Name(config.rule), rules.value(i)->name());
    EXPECT_EQ(sim::MemoryRuleNamed(rules.value(i)->name()), config.rule);
  }
}

}  // namespace
}  // namespace twin
