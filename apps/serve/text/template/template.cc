#include "apps/serve/text/template/template.h"

#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "apps/serve/text/template/template_evaluator.h"
#include "apps/serve/text/template/tree.h"
#include "apps/serve/text/utf8.h"
#include "core/input_error.h"

namespace twin::text {
namespace {

using jinja::Block;
using jinja::Expression;
using jinja::ExpressionKind;
using jinja::Statement;

// message.content or message['content'], perhaps with filters or a slice.
bool IsContent(const Expression& expression) {
  switch (expression.kind) {
    case ExpressionKind::kFilter:
    case ExpressionKind::kSlice:
      return expression.children[0] != nullptr && IsContent(*expression.children[0]);
    case ExpressionKind::kAttribute:
      return expression.name == "content";
    case ExpressionKind::kItem: {
      const Expression& key = *expression.children[1];
      return key.kind == ExpressionKind::kConstant && key.constant.is_text() &&
             key.constant.text() == "content";
    }
    default:
      return false;
  }
}

bool VisitsContent(const Block& block) {
  return std::any_of(block.begin(), block.end(), [](const Statement& statement) {
    const bool here = statement.kind == jinja::StatementKind::kFor && IsContent(*statement.value);
    const bool in_branch =
        std::any_of(statement.branches.begin(), statement.branches.end(),
                    [](const jinja::Branch& branch) { return VisitsContent(branch.body); });
    return here || in_branch || VisitsContent(statement.body) ||
           VisitsContent(statement.otherwise) ||
           (statement.macro != nullptr && VisitsContent(statement.macro->body));
  });
}

}  // namespace

struct Template::Tree {
  Block block;
};

Template::Template(std::string_view source, std::string name) : name_(std::move(name)) {
  if (source.size() > jinja::kTemplateBytesMost) {
    throw InputError(InputError::Kind::kUsage, name_,
                     fmt::format("the template has {} bytes, at most {} are allowed", source.size(),
                                 jinja::kTemplateBytesMost));
  }
  if (ValidUtf8Bytes(source) != source.size()) {
    throw InputError(InputError::Kind::kUsage, name_, "the template is not valid UTF-8");
  }
  try {
    tree_ = std::make_unique<const Tree>(Tree{jinja::Parse(source)});
  } catch (const jinja::SyntaxFailure& failure) {
    throw InputError(InputError::Kind::kUsage, fmt::format("{}:{}", name_, failure.line),
                     failure.what);
  }
}

Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

std::string Template::Render(const nlohmann::ordered_json& variables,
                             const jinja::LocalClock& clock) const {
  jinja::TemplateEvaluator evaluator(tree_->block, variables, clock);
  try {
    return evaluator.Run();
  } catch (const jinja::Failure& failure) {
    // Clients of a server read this: no folders of its machine.
    const std::string shown = name_.substr(name_.rfind('/') + 1);
    throw InputError(InputError::Kind::kData,
                     failure.raised() ? "" : fmt::format("{}:{}", shown, evaluator.line()),
                     failure.what());
  }
}

bool Template::VisitsContentParts() const { return VisitsContent(tree_->block); }

}  // namespace twin::text
