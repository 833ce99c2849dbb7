#include "apps/serve/text/template/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <set>

#include "core/printable.h"

namespace twin::text::jinja {
namespace {

std::string Describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd:
      return "the template's end";
    case TokenKind::kStatementEnd:
      return "the tag's end %}";
    case TokenKind::kPrintEnd:
      return "the tag's end }}";
    default:
      return fmt::format("'{}'", Printable(token.text));
  }
}

// Words that cannot name a variable.
constexpr std::array<std::string_view, 13> kReserved = {
    "true", "false", "none", "True", "False", "None", "and", "or", "not", "in", "is", "if", "else"};

class StatementParser {
 public:
  explicit StatementParser(std::vector<Token> tokens)
      : reader_(std::move(tokens)), expressions_(reader_) {}

  Block Run() {
    Block block = ParseBlock({});
    for (const auto& [name, line] : expressions_.named_calls()) {
      if (defined_.count(name) == 0 && FindFunction(name) == nullptr) {
        TokenReader::Refuse(line, fmt::format("function '{}' is neither a macro nor in the "
                                              "supported subset of Jinja",
                                              Printable(name)));
      }
    }
    return block;
  }

 private:
  // Place of a statement, which decides whether break, continue and macro are allowed.
  struct Place {
    bool in_loop = false;
    bool at_top = true;
  };

  // Parses statements up to a tag that starts with one of `ends`. The caller takes that name.
  Block ParseBlock(std::initializer_list<std::string_view> ends) {
    const TokenReader::Level level(reader_);
    Block block;
    for (;;) {
      const Token& token = reader_.current();
      if (token.kind == TokenKind::kEnd) {
        if (ends.size() == 0) return block;
        reader_.Refuse(fmt::format("the template ends without {{% {} %}}", *(ends.end() - 1)));
      }
      if (token.kind == TokenKind::kText) {
        block.push_back({.kind = StatementKind::kText, .line = token.line, .text = token.text});
        reader_.Take();
      } else if (token.kind == TokenKind::kPrintBegin) {
        block.push_back(ParsePrint());
      } else {
        const std::string& name = reader_.ahead(1).text;
        if (std::find(ends.begin(), ends.end(), name) != ends.end()) {
          reader_.Take();
          return block;
        }
        ParseTag(block);
      }
    }
  }

  // Parses a block in another place than the current one.
  Block ParseBlockAt(Place place, std::initializer_list<std::string_view> ends) {
    std::swap(place, place_);
    Block block = ParseBlock(ends);
    place_ = place;
    return block;
  }

  void EndTag() {
    if (reader_.current().kind != TokenKind::kStatementEnd) reader_.RefuseToken("%}");
    reader_.Take();
  }

  void EndBlock(std::string_view name) {
    if (!reader_.TakeIfName(name)) reader_.RefuseToken(fmt::format("'{}'", name));
    EndTag();
  }

  [[nodiscard]] Statement Make(StatementKind kind) const {
    return {.kind = kind, .line = reader_.current().line};
  }

  Statement ParsePrint() {
    Statement print = Make(StatementKind::kPrint);
    reader_.Take();
    print.value = expressions_.ParseTuple();
    if (reader_.current().kind != TokenKind::kPrintEnd) reader_.RefuseToken("}}");
    reader_.Take();
    return print;
  }

  void ParseTag(Block& block) {
    reader_.Take();
    const int line = reader_.current().line;
    const std::string name = reader_.ExpectName();
    Statement statement;
    if (name == "if") {
      statement = ParseIf();
    } else if (name == "for") {
      statement = ParseFor();
    } else if (name == "set") {
      statement = ParseSet();
    } else if (name == "macro") {
      statement = ParseMacro();
    } else if (name == "call") {
      statement = ParseCallBlock();
    } else if (name == "filter") {
      statement = ParseFilterBlock();
    } else if (name == "generation") {
      statement = ParseGeneration();
    } else if (name == "break" || name == "continue") {
      if (!place_.in_loop) TokenReader::Refuse(line, fmt::format("'{}' outside a loop", name));
      statement = Make(name == "break" ? StatementKind::kBreak : StatementKind::kContinue);
      EndTag();
    } else {
      TokenReader::Refuse(
          line, fmt::format("tag '{}' is outside the supported subset of Jinja; allowed are if, "
                            "for, set, macro, call, filter, generation, break, continue",
                            Printable(name)));
    }
    statement.line = line;
    block.push_back(std::move(statement));
  }

  Statement ParseIf() {
    Statement statement = Make(StatementKind::kIf);
    for (;;) {
      Branch branch{.condition = expressions_.ParseTuple(), .body = {}};
      EndTag();
      branch.body = ParseBlock({"elif", "else", "endif"});
      statement.branches.push_back(std::move(branch));
      if (!reader_.TakeIfName("elif")) break;
    }
    if (reader_.TakeIfName("else")) {
      EndTag();
      statement.otherwise = ParseBlock({"endif"});
    }
    EndBlock("endif");
    return statement;
  }

  std::string ExpectVariable() {
    std::string name = reader_.ExpectName();
    if (std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end()) {
      reader_.Refuse(fmt::format("'{}' cannot be assigned to", name));
    }
    defined_.insert(name);
    return name;
  }

  std::vector<std::string> ParseTargets() {
    const bool in_parentheses = reader_.TakeIf("(");
    std::vector<std::string> targets = {ExpectVariable()};
    while (reader_.TakeIf(",")) targets.push_back(ExpectVariable());
    if (in_parentheses) reader_.Expect(")");
    return targets;
  }

  Statement ParseFor() {
    Statement loop = Make(StatementKind::kFor);
    loop.targets = ParseTargets();
    if (std::find(loop.targets.begin(), loop.targets.end(), "loop") != loop.targets.end()) {
      reader_.Refuse("'loop' cannot be assigned to in a loop");
    }
    if (!reader_.TakeIfName("in")) reader_.RefuseToken("'in'");
    loop.value = expressions_.ParseVisited();
    if (reader_.TakeIfName("if")) loop.condition = expressions_.ParseConditional();
    if (reader_.current().IsName("recursive")) {
      reader_.Refuse("recursive loops are outside the supported subset of Jinja");
    }
    EndTag();
    loop.body = ParseBlockAt({.in_loop = true, .at_top = false}, {"else", "endfor"});
    if (reader_.TakeIfName("else")) {
      EndTag();
      loop.otherwise = ParseBlockAt({.in_loop = place_.in_loop, .at_top = false}, {"endfor"});
    }
    EndBlock("endfor");
    return loop;
  }

  Statement ParseSet() {
    Statement set = Make(StatementKind::kSet);
    if (reader_.ahead(1).Is(".")) {
      set.kind = StatementKind::kSetField;
      set.targets = {reader_.ExpectName()};
      reader_.Expect(".");
      set.targets.push_back(reader_.ExpectName());
      if (set.targets[1].starts_with('_')) {
        reader_.Refuse("attributes of a namespace must not start with _");
      }
    } else {
      set.targets = ParseTargets();
    }
    if (reader_.TakeIf("=")) {
      set.value = expressions_.ParseTuple();
      EndTag();
      return set;
    }
    if (set.kind == StatementKind::kSetField || set.targets.size() > 1) {
      reader_.RefuseToken("'='");
    }
    set.kind = StatementKind::kSetBlock;
    if (reader_.TakeIf("|")) set.value = expressions_.ParseFilterChain();
    EndTag();
    set.body = ParseBlockAt({.in_loop = false, .at_top = false}, {"endset"});
    EndBlock("endset");
    return set;
  }

  void ParseSignature(MacroDefinition& macro) {
    reader_.Expect("(");
    while (!reader_.TakeIf(")")) {
      if (!macro.parameters.empty()) {
        reader_.Expect(",");
        if (reader_.TakeIf(")")) break;
      }
      macro.parameters.push_back(ExpectVariable());
      if (reader_.TakeIf("=")) {
        macro.defaults.push_back(expressions_.ParseConditional());
      } else if (!macro.defaults.empty()) {
        reader_.Refuse("a parameter without a default follows one with a default");
      }
    }
  }

  Statement ParseMacro() {
    if (!place_.at_top) {
      reader_.Refuse("macros within loops, macros and blocks are outside the supported subset");
    }
    Statement statement = Make(StatementKind::kMacro);
    auto macro = std::make_shared<MacroDefinition>();
    macro->name = ExpectVariable();
    ParseSignature(*macro);
    EndTag();
    defined_.insert("caller");
    macro->body = ParseBlockAt({.in_loop = false, .at_top = false}, {"endmacro"});
    EndBlock("endmacro");
    statement.macro = std::move(macro);
    return statement;
  }

  Statement ParseCallBlock() {
    Statement statement = Make(StatementKind::kCallBlock);
    auto caller = std::make_shared<MacroDefinition>();
    caller->name = "caller";
    if (reader_.current().Is("(")) ParseSignature(*caller);
    statement.value = expressions_.ParseConditional();
    if (statement.value->kind != ExpressionKind::kCall) reader_.Refuse("expected a call");
    EndTag();
    caller->body = ParseBlockAt({.in_loop = false, .at_top = false}, {"endcall"});
    EndBlock("endcall");
    statement.macro = std::move(caller);
    return statement;
  }

  Statement ParseFilterBlock() {
    Statement statement = Make(StatementKind::kFilterBlock);
    statement.value = expressions_.ParseFilterChain();
    EndTag();
    statement.body = ParseBlockAt({.in_loop = false, .at_top = false}, {"endfilter"});
    EndBlock("endfilter");
    return statement;
  }

  Statement ParseGeneration() {
    Statement statement = Make(StatementKind::kScope);
    EndTag();
    statement.body = ParseBlockAt({.in_loop = false, .at_top = false}, {"endgeneration"});
    EndBlock("endgeneration");
    return statement;
  }

  TokenReader reader_;
  ExpressionParser expressions_;
  Place place_;
  std::set<std::string> defined_;  // names that some statement gives a value
};

}  // namespace

const Token& TokenReader::ahead(std::size_t count) const {
  return tokens_[std::min(at_ + count, tokens_.size() - 1)];
}

Token TokenReader::Take() {
  Token token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenReader::TakeIf(std::string_view symbol) {
  if (!current().Is(symbol)) return false;
  Take();
  return true;
}

bool TokenReader::TakeIfName(std::string_view name) {
  if (!current().IsName(name)) return false;
  Take();
  return true;
}

void TokenReader::Expect(std::string_view symbol) {
  if (!TakeIf(symbol)) RefuseToken(fmt::format("'{}'", symbol));
}

std::string TokenReader::ExpectName() {
  if (current().kind != TokenKind::kName) RefuseToken("a name");
  return Take().text;
}

void TokenReader::Refuse(int line, const std::string& what) { throw SyntaxFailure{line, what}; }

void TokenReader::RefuseToken(std::string_view expected) const {
  Refuse(fmt::format("expected {}, found {}", expected, Describe(current())));
}

TokenReader::Level::Level(TokenReader& reader) : reader_(reader) {
  if (reader_.depth_ == kNestingMost) {
    reader_.Refuse(fmt::format("the template nests deeper than {} levels", kNestingMost));
  }
  ++reader_.depth_;
}

Block Parse(std::string_view source) { return StatementParser(Tokenize(source)).Run(); }

}  // namespace twin::text::jinja
