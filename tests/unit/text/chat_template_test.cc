#include "apps/serve/text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/input_error.h"

namespace twin::text {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const ordered_json kTokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};

ordered_json Messages(const std::string& text) { return ordered_json::parse(text); }

const ordered_json kTurns = Messages(R"([{"role": "user", "content": " Hi "},
    {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Bye"}])");
const ordered_json kSystemAndUser = Messages(R"([{"role": "system", "content": "Be brief"},
                                                 {"role": "user", "content": "Hi"}])");

std::string RenderNamed(const char* name, const ordered_json& messages) {
  return ChatTemplate::Named(name, kTokens).Render({.messages = messages});
}

std::string RenderSource(const char* source, const ChatPrompt& prompt) {
  return ChatTemplate(source, "t.jinja", kTokens).Render(prompt);
}

// A directory of a model, removed at the end.
class ModelFolder {
 public:
  ModelFolder() : path_(fs::path(testing::TempDir()) / ("chat_" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~ModelFolder() { fs::remove_all(path_); }
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;

  void Write(const char* name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// The expected prompts are documented by the makers of the models.
TEST(NamedTemplateTest, WritesThePromptsOfTheFamilies) {
  EXPECT_EQ(RenderNamed("chatml", kSystemAndUser),
            "<|im_start|>system\nBe brief<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(RenderNamed("llama2", kSystemAndUser),
            "<s>[INST] <<SYS>>\nBe brief\n<</SYS>>\n\nHi [/INST]");
  EXPECT_EQ(RenderNamed("llama2", kTurns), "<s>[INST] Hi [/INST] Hello </s><s>[INST] Bye [/INST]");
  EXPECT_EQ(RenderNamed("llama3", kSystemAndUser),
            "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(RenderNamed("mistral", kSystemAndUser), "<s>[INST] Be brief\n\nHi[/INST]");
  EXPECT_EQ(RenderNamed("mistral", kTurns), "<s>[INST]  Hi [/INST] Hello</s>[INST] Bye[/INST]");
  EXPECT_EQ(RenderNamed("gemma", kTurns),
            "<s><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHello<end_of_turn>\n"
            "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n");
  EXPECT_EQ(RenderNamed("phi", kSystemAndUser),
            "<|system|>\nBe brief<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\n");
  EXPECT_EQ(RenderNamed("zephyr", kSystemAndUser),
            "<|system|>\nBe brief</s>\n<|user|>\nHi</s>\n<|assistant|>\n");
  EXPECT_EQ(RenderNamed("vicuna", kTurns), "USER:  Hi  ASSISTANT: Hello</s>USER: Bye ASSISTANT:");
}

TEST(NamedTemplateTest, SaysWhatAFamilyDoesNotTake) {
  EXPECT_THAT([] { RenderNamed("gemma", kSystemAndUser); },
              ThrowsMessage<InputError>(
                  Eq("roles must be user and assistant; a system message is not supported")));
  EXPECT_THAT([] { ChatTemplate::Named("alpaca", kTokens); },
              ThrowsMessage<InputError>(
                  Eq("chat_template: 'alpaca' is no named template; allowed are chatml, gemma, "
                     "llama2, llama3, mistral, phi, vicuna, zephyr")));
}

TEST(ChatTemplateTest, JoinsPartsUnlessTheTemplateVisitsThem) {
  const ChatPrompt prompt{.messages = Messages(R"([{"role": "user", "content": [
      {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])")};
  EXPECT_EQ(RenderSource("{{ messages[0].content }}", prompt), "a\nb");
  EXPECT_EQ(RenderSource("{% for m in messages %}{% for p in m.content %}<{{ p.text }}>{% endfor %}"
                         "{% endfor %}",
                         prompt),
            "<a><b>");
}

TEST(ChatTemplateTest, TakesDeveloperForSystemUnlessTheTemplateNamesIt) {
  const ChatPrompt prompt{.messages = Messages(R"([{"role": "developer", "content": "x"}])")};
  EXPECT_EQ(RenderSource("{{ messages[0].role }}", prompt), "system");
  EXPECT_EQ(RenderSource("{# developer #}{{ messages[0].role }}", prompt), "developer");
}

TEST(ChatTemplateTest, GivesTemplatesWhatTransformersGiveThem) {
  EXPECT_EQ(RenderSource("{{ bos_token }} {{ tools is none }} {{ documents is none }} "
                         "{{ add_generation_prompt }} {{ unk_token is defined }} {{ level }}",
                         {.messages = kTurns, .variables = {{"level", 3}}}),
            "<s> True True True False 3");
  const ChatPrompt called{.messages = Messages(R"([{"role": "assistant", "content": null,
      "reasoning": "because",
      "tool_calls": [{"function": {"name": "f", "arguments": "{\"b\": 1, \"a\": [2]}"}},
                     {"function": {"name": "g", "arguments": ""}}]}])")};
  EXPECT_EQ(RenderSource("{% set m = messages[0] %}[{{ m.content }}] {{ m.reasoning_content }} "
                         "{{ m.thinking }}{% for c in m.tool_calls %} "
                         "{{ c.function.arguments | tojson }}{% endfor %}",
                         called),
            R"([] because because {"b": 1, "a": [2]} {})");
}

TEST(ChatTemplateTest, ContinuesTheFinalMessage) {
  ChatPrompt prompt{
      .messages = kSystemAndUser, .add_generation_prompt = false, .continue_final_message = true};
  prompt.messages.push_back({{"role", "assistant"}, {"content", "Once upon "}});
  const ChatTemplate chatml = ChatTemplate::Named("chatml", kTokens);
  EXPECT_THAT(chatml.Render(prompt), testing::EndsWith("<|im_start|>assistant\nOnce upon "));
  // A template that trims contents: the prompt ends with the trimmed one.
  const ChatTemplate llama3 = ChatTemplate::Named("llama3", kTokens);
  EXPECT_THAT(llama3.Render(prompt), testing::EndsWith("assistant<|end_header_id|>\n\nOnce upon"));
  EXPECT_THAT([&] { RenderSource("{{ messages[0].content }}", prompt); },
              ThrowsMessage<InputError>(HasSubstr("does not print the final message")));
  prompt.add_generation_prompt = true;
  EXPECT_THAT([&] { static_cast<void>(chatml.Render(prompt)); },
              ThrowsMessage<InputError>(HasSubstr("cannot both be true")));
}

TEST(ChatTemplateTest, RefusesWhatIsNoMessage) {
  const auto refused = [](const char* messages) {
    return [messages] { RenderNamed("chatml", Messages(messages)); };
  };
  EXPECT_THAT(refused("{}"), ThrowsMessage<InputError>(Eq("messages: must be a list")));
  EXPECT_THAT(refused("[1]"), ThrowsMessage<InputError>(Eq("messages[0]: must be an object")));
  EXPECT_THAT(refused(R"([{"content": ""}])"),
              ThrowsMessage<InputError>(Eq("messages[0].role: must be a text")));
  EXPECT_THAT(refused(R"([{"role": "user", "content": 1}])"),
              ThrowsMessage<InputError>(
                  Eq("messages[0].content: must be a text, null, or a list of parts")));
  EXPECT_THAT(refused(R"([{"role": "user", "content": [{"type": "image_url"}]}])"),
              ThrowsMessage<InputError>(
                  Eq("messages[0].content[0].type: image_url is not supported; allowed is text")));
  EXPECT_THAT(
      [] {
        RenderSource("", {.messages = kTurns, .variables = {{"messages", 1}}});
      },
      ThrowsMessage<InputError>(Eq("chat_template_kwargs: must not have 'messages'")));
}

TEST(ChatTemplateTest, FindsTheTemplateOfAModel) {
  const ModelFolder model;
  const ChatPrompt plain{.messages = kTurns};
  const ChatPrompt with_tools{.messages = kTurns, .tools = Messages(R"([{"name": "f"}])")};
  EXPECT_THAT([&] { ChatTemplate::OfModel(model.path()); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("has no chat template"), HasSubstr("name one of chatml"))));
  model.Write("tokenizer_config.json", R"({"bos_token": {"content": "<b>"}, "eos_token": null,
      "chat_template": [{"name": "default",
                         "template": "d{{ bos_token }}{{ eos_token is defined }}"},
                        {"name": "tool_use", "template": "t"}]})");
  EXPECT_EQ(ChatTemplate::OfModel(model.path()).Render(plain), "d<b>False");
  EXPECT_EQ(ChatTemplate::OfModel(model.path()).Render(with_tools), "t");
  EXPECT_EQ(SpecialTokensOf(model.path()), ordered_json({{"bos_token", "<b>"}}));
  model.Write("chat_template.jinja", "file");
  EXPECT_EQ(ChatTemplate::OfModel(model.path()).Render(with_tools), "file");
  model.Write("chat_template.jinja", "\n{% extends 'x' %}");
  EXPECT_THAT([&] { ChatTemplate::OfModel(model.path()); },
              ThrowsMessage<InputError>(HasSubstr("chat_template.jinja:2: tag 'extends'")));
}

TEST(ChatTemplateTest, TakesAClock) {
  ChatTemplate made("{{ strftime_now('%Y') }}", "t.jinja", kTokens);
  made.SetClock([] {
    std::tm time{};
    time.tm_year = 99;
    return time;
  });
  EXPECT_EQ(made.Render({.messages = kTurns}), "1999");
}

}  // namespace
}  // namespace twin::text
