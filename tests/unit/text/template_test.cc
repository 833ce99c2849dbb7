#include "apps/serve/text/template/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <string>

#include <nlohmann/json.hpp>

#include "core/input_error.h"

namespace twin::text {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

// Thursday, 1 January 2026, 00:00:00.
std::tm NewYear() {
  std::tm time{};
  time.tm_year = 126;
  time.tm_mday = 1;
  time.tm_wday = 4;
  return time;
}

std::string Render(const std::string& source, const std::string& variables = "{}") {
  return Template(source, "t.jinja").Render(ordered_json::parse(variables), NewYear);
}

testing::AssertionResult IsRefused(const std::string& source, const std::string& where,
                                   const std::string& why) {
  try {
    const Template loaded(source, "t.jinja");
    return testing::AssertionFailure() << "it was loaded";
  } catch (const InputError& error) {
    const std::string message = error.what();
    const bool fits = message.starts_with(where + ": ") && message.find(why) != std::string::npos;
    return fits ? testing::AssertionSuccess() : testing::AssertionFailure() << message;
  }
}

// The comparison with jinja2 itself is tests/chat_templates/compare_with_jinja.py; here are some of
// its facts, for builds without Python.
TEST(TemplateTest, RendersAConversation) {
  EXPECT_EQ(Render("{% for m in messages %}\n"
                   "  {%- if m.role == 'user' %}<u>{{ m['content'] | trim }}{% endif %}\n"
                   "{% endfor %}\n"
                   "{{ eos_token }}\n",
                   R"({"messages": [{"role": "user", "content": " hi "},
                                    {"role": "system", "content": "s"}], "eos_token": "</s>"})"),
            "<u>hi</s>");
}

TEST(TemplateTest, DropsLineEndsAndIndentationOfStatementsAlone) {
  EXPECT_EQ(Render("a\n  {% if true %}\n  b\n  {% endif %}\n  {{ 1 }}\nc\n"), "a\n  b\n  1\nc");
  EXPECT_EQ(Render("a\n  {%+ if true +%}\nb{% endif %}"), "a\n  \nb");
  EXPECT_EQ(Render("a \n {{- 1 -}} \n b"), "a1b");
}

TEST(TemplateTest, TellsUndefinedFromNone) {
  EXPECT_EQ(Render("{{ x is defined }} {{ x is none }} [{{ x }}]", R"({"x": null})"),
            "True True [None]");
  EXPECT_EQ(Render("{{ x is defined }} {{ x is none }} [{{ x }}]"), "False False []");
}

TEST(TemplateTest, PrintsJsonAsTransformersDo) {
  EXPECT_EQ(Render("{{ x | tojson }}", R"({"x": {"b": [1, 2.0, "é<"], "a": null}})"),
            R"({"b": [1, 2.0, "é<"], "a": null})");
  EXPECT_EQ(Render("{{ {'a': [1]} | tojson(indent=2) }}"), "{\n  \"a\": [\n    1\n  ]\n}");
}

TEST(TemplateTest, TakesTheTimeFromItsClock) {
  EXPECT_EQ(Render("{{ strftime_now('%d %b %Y') }}"), "01 Jan 2026");
}

TEST(TemplateTest, PassesOnTheMessageOfRaiseExceptionAlone) {
  EXPECT_THAT([] { Render("\n{{ raise_exception('roles must alternate') }}"); },
              ThrowsMessage<InputError>(Eq("roles must alternate")));
}

TEST(TemplateTest, NamesTheLineOfAFailure) {
  EXPECT_THAT(
      [] { Render("one\ntwo {{ 1 + 'a' }}"); },
      ThrowsMessage<InputError>(Eq("t.jinja:2: unsupported operand types for +: 'int' and 'str'")));
  EXPECT_THAT(
      [] { Render("{% macro m() %}\n{{ x.y.z }}{% endmacro %}\n\n{{ m() }}", R"({"x": {}})"); },
      ThrowsMessage<InputError>(Eq("t.jinja:2: 'dict object' has no attribute 'y'")));
}

// Clients of a server read what fails while a template runs.
TEST(TemplateTest, AFailureShowsNoFolderOfTheTemplate) {
  const nlohmann::ordered_json none = nlohmann::ordered_json::object();
  for (const auto& [name, shown] :
       {std::pair("/srv/secret/chat_template.jinja", "chat_template.jinja:1: "),
        std::pair("models/x/tokenizer_config.json:chat_template[tool_use]",
                  "tokenizer_config.json:chat_template[tool_use]:1: ")}) {
    const Template made("{{ 1 + 'a' }}", name);
    EXPECT_THAT([&] { (void)made.Render(none, {}); },
                ThrowsMessage<InputError>(::testing::StartsWith(shown)));
  }
}

TEST(TemplateTest, NeverChangesWhatItIsGiven) {
  EXPECT_THAT([] { Render("{{ x.append(1) }}", R"({"x": []})"); },
              ThrowsMessage<InputError>(HasSubstr("templates must not change values")));
}

TEST(TemplateTest, RefusesWhatIsOutsideTheSubsetWhenLoaded) {
  EXPECT_TRUE(IsRefused("a\n{% include 'x' %}", "t.jinja:2", "tag 'include'"));
  EXPECT_TRUE(IsRefused("{{ x | urlize }}", "t.jinja:1", "filter 'urlize'"));
  EXPECT_TRUE(IsRefused("{{ x is divisibleby(2) }}", "t.jinja:1", "test 'divisibleby'"));
  EXPECT_TRUE(IsRefused("{{ x.__class__() }}", "t.jinja:1", "method '__class__'"));
  EXPECT_TRUE(IsRefused("{{ cycler(1) }}", "t.jinja:1", "function 'cycler'"));
  EXPECT_TRUE(IsRefused("{{ 1 // 2 }}", "t.jinja:1", "operator '//'"));
  EXPECT_TRUE(IsRefused("{{ f(*x) }}", "t.jinja:1", "arguments with *"));
  EXPECT_TRUE(IsRefused("{{ x | map('nothing') }}", "t.jinja:1", "filter 'nothing'"));
  EXPECT_TRUE(IsRefused("{{ x | selectattr('a', 'nothing') }}", "t.jinja:1", "test 'nothing'"));
  EXPECT_TRUE(IsRefused("{{ x | tojson(colour=1) }}", "t.jinja:1", "has no argument 'colour'"));
  EXPECT_TRUE(IsRefused("{{ x | replace('a') }}", "t.jinja:1", "needs its argument 'new'"));
  EXPECT_TRUE(IsRefused("{% for x in y recursive %}{% endfor %}", "t.jinja:1", "recursive"));
}

TEST(TemplateTest, RefusesBrokenSyntaxWithItsLine) {
  EXPECT_TRUE(IsRefused("{% if x %}\n", "t.jinja:1", "{% endif %}"));
  EXPECT_TRUE(IsRefused("\n{{ x", "t.jinja:2", "has no end }}"));
  EXPECT_TRUE(IsRefused("{{ 'x }}", "t.jinja:1", "in quotes has no end"));
  EXPECT_TRUE(IsRefused("{{ (1] }}", "t.jinja:1", "unexpected ']'"));
  EXPECT_TRUE(IsRefused("{% break %}", "t.jinja:1", "'break' outside a loop"));
  EXPECT_TRUE(IsRefused("\xff", "t.jinja", "not valid UTF-8"));
}

TEST(TemplateTest, BoundsTheTemplateAndItsNesting) {
  EXPECT_TRUE(IsRefused(std::string(262'145, 'x'), "t.jinja", "at most 262144 are allowed"));
  EXPECT_EQ(Render(std::string(262'144, 'x')).size(), 262'144);
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  EXPECT_TRUE(IsRefused("{{ " + deep + " }}", "t.jinja:1", "deeper than 64 levels"));
  std::string chain = "{{ 0";
  for (int i = 0; i < 20'000; ++i) chain += " + 1";
  EXPECT_EQ(Render(chain + " }}"), "20000");
}

TEST(TemplateTest, BoundsTheWorkOfARendering) {
  const auto limit = [](const char* text) {
    return ThrowsMessage<InputError>(AllOf(StartsWith("t.jinja:"), HasSubstr(text)));
  };
  EXPECT_THAT(
      [] {
        Render(
            "{% for a in range(2000) %}{% for b in range(2000) %}{% endfor %}"
            "{% endfor %}");
      },
      limit("more than 1000000 steps"));
  EXPECT_THAT([] { Render("{{ 'x' * 99999999999 }}"); }, limit("beyond 16777216 bytes"));
  EXPECT_THAT([] { Render("{{ [0] * 99999999999 }}"); }, limit("more than 1000000 elements"));
  EXPECT_THAT([] { Render("{{ range(100001) }}"); }, limit("more than 100000 elements"));
  EXPECT_THAT([] { Render("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"); },
              limit("nest deeper than 64 levels"));
  EXPECT_THAT(
      [] {
        Render(
            "{% set n = namespace(x=[]) %}{% for i in range(500) %}"
            "{% set n.x = [n.x] %}{% endfor %}");
      },
      limit("nest deeper than 128 levels"));
  EXPECT_THAT(
      [] {
        Render(
            "{% set n = namespace(x='x' * 9999) %}{% for i in range(50) %}"
            "{% set n.x = n.x ~ n.x %}{% endfor %}");
      },
      limit("beyond 16777216 bytes"));
  // 60,000 comparisons of two equal megabytes.
  EXPECT_THAT(
      [] {
        Render(
            "{% set a = 'x' * 1000000 %}{% set b = 'x' * 1000000 %}"
            "{% for i in range(60000) %}{% if a == b %}{% endif %}{% endfor %}");
      },
      limit("more than 1000000 steps"));
}

TEST(TemplateTest, RefusesACallerKeptBeyondItsBlock) {
  EXPECT_THAT(
      [] {
        Render(
            "{% set n = namespace() %}{% macro keep() %}{% set n.f = caller %}{% endmacro %}"
            "{% for i in [1] %}{% call keep() %}x{% endcall %}{% endfor %}"
            "{% set f = n.f %}{{ f() }}");
      },
      ThrowsMessage<InputError>(HasSubstr("called after its block")));
}

TEST(TemplateTest, KnowsWhetherItVisitsContentParts) {
  EXPECT_TRUE(
      Template("{% for m in messages %}{% for p in m.content %}{% endfor %}{% endfor %}", "t")
          .VisitsContentParts());
  EXPECT_TRUE(Template("{% macro r(m) %}{% if m %}{% for p in m['content'] | list %}{% endfor %}"
                       "{% endif %}{% endmacro %}",
                       "t")
                  .VisitsContentParts());
  EXPECT_FALSE(
      Template("{% for m in messages %}{{ m.content }}{% endfor %}", "t").VisitsContentParts());
}

}  // namespace
}  // namespace twin::text
