// PatternForPcre2(): reads a pattern as Oniguruma does, and refuses what PCRE2 would read
// differently.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "apps/serve/text/characters.h"
#include "apps/serve/text/split_pattern.h"
#include "apps/serve/text/utf8.h"
#include "core/input_error.h"
#include "core/printable.h"

namespace twin::text {

namespace {

// White_Space of Unicode, as the content of a class. PCRE2's \s also has U+180E.
constexpr std::string_view kWhiteSpaceClass =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A})"
    R"(\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

// General categories, which Oniguruma and PCRE2 define equally; they define scripts differently.
constexpr std::string_view kCategories[] = {
    "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P", "Pc",
    "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};

constexpr std::size_t kPatternBytesMax = std::size_t{16} << 10;
constexpr std::size_t kGroupDepthMax = 64;

class PatternReader {
 public:
  PatternReader(std::string_view pattern, const std::string& where)
      : pattern_(pattern), where_(where) {}

  std::string Read() {
    if (pattern_.size() > kPatternBytesMax) {
      Refuse(fmt::format("has {} bytes; allowed are {}", pattern_.size(), kPatternBytesMax));
    }
    if (ValidUtf8Bytes(pattern_) != pattern_.size()) Refuse("is not UTF-8");
    while (at_ < pattern_.size()) Element();
    if (caseless_.size() != 1) Refuse("lacks a closing ')'");
    return std::move(result_);
  }

 private:
  [[noreturn]] void Refuse(const std::string& what) const {
    throw InputError(InputError::Kind::kData, where_, "the pattern " + what);
  }
  [[noreturn]] void RefuseHere(std::string_view what) const {
    Refuse(fmt::format("has '{}' at byte {}: {}", Printable(pattern_.substr(at_, 8)), at_, what));
  }

  [[nodiscard]] bool Ahead(std::string_view text) const {
    return pattern_.substr(at_).starts_with(text);
  }
  void Copy(std::size_t bytes) {
    result_ += pattern_.substr(at_, bytes);
    at_ += bytes;
  }

  void Element() {
    const char c = pattern_[at_];
    switch (c) {
      case '\\':
        Escape(/*in_class=*/false);
        return;
      case '[':
        Class();
        return;
      case '(':
        Group();
        return;
      case ')':
        if (caseless_.size() == 1) RefuseHere("it closes no group");
        caseless_.pop_back();
        Copy(1);
        return;
      case '{':
        Repetition();
        return;
      case '.':
      case '^':
      case '$':
      case ']':
      case '}':
        RefuseHere("not supported; escape it to mean the character");
      default:
        Copy(CharacterBytes(c));
    }
  }

  void Group() {
    if (caseless_.size() > kGroupDepthMax) RefuseHere("groups nest too deeply");
    bool caseless = caseless_.back();
    if (!Ahead("(?")) {
      Copy(1);
    } else if (Ahead("(?i:")) {
      caseless = true;
      Copy(4);
    } else if (Ahead("(?:") || Ahead("(?=") || Ahead("(?!")) {
      Copy(3);
    } else if (Ahead("(?<=") || Ahead("(?<!")) {
      Copy(4);
    } else {
      RefuseHere("groups may begin with (, (?:, (?i:, (?=, (?!, (?<= or (?<!");
    }
    caseless_.push_back(caseless);
  }

  // {n}, {n,} or {n,m}. Oniguruma reads {,m} and a '+' or '?' after it in its own way.
  void Repetition() {
    const std::size_t close = pattern_.find('}', at_);
    if (close == std::string_view::npos) RefuseHere("lacks a closing '}'");
    const std::string_view counts = pattern_.substr(at_ + 1, close - at_ - 1);
    const bool digits_only = std::all_of(counts.begin(), counts.end(),
                                         [](char c) { return (c >= '0' && c <= '9') || c == ','; });
    if (!digits_only || counts.empty() || counts[0] == ',' ||
        std::count(counts.begin(), counts.end(), ',') > 1) {
      RefuseHere("a repetition must be {n}, {n,} or {n,m}");
    }
    const char next = close + 1 < pattern_.size() ? pattern_[close + 1] : ' ';
    if (next == '+' || next == '?' || next == '*') RefuseHere("nothing may repeat a repetition");
    Copy(close + 1 - at_);
  }

  // Ignoring case widens classes in ways in which the engines differ.
  void RequireCase() const {
    if (caseless_.back()) RefuseHere("within (?i: only plain characters are supported");
  }

  // Copies or rewrites one escape. Returns the character that it stands for, if it does for one.
  std::optional<char32_t> Escape(bool in_class) {
    if (at_ + 1 >= pattern_.size()) RefuseHere("nothing follows the backslash");
    const char c = pattern_[at_ + 1];
    switch (c) {
      case 's':
        RequireCase();
        result_ += in_class ? std::string(kWhiteSpaceClass) : fmt::format("[{}]", kWhiteSpaceClass);
        at_ += 2;
        return std::nullopt;
      case 'S':
        if (in_class) RefuseHere("\\S is not supported in a class");
        RequireCase();
        result_ += fmt::format("[^{}]", kWhiteSpaceClass);
        at_ += 2;
        return std::nullopt;
      case 'd':
      case 'D':
        RequireCase();
        Copy(2);
        return std::nullopt;
      case 'p':
      case 'P':
        RequireCase();
        Property();
        return std::nullopt;
      case 'r':
        Copy(2);
        return U'\r';
      case 'n':
        Copy(2);
        return U'\n';
      case 't':
        Copy(2);
        return U'\t';
      case 'f':
        Copy(2);
        return U'\f';
      case 'u':
        return HexCharacter();
      default:
        break;
    }
    const bool punctuation =
        c > ' ' && c < 0x7F && std::isalnum(static_cast<unsigned char>(c)) == 0;
    if (!punctuation && c != ' ') RefuseHere("this escape is not supported");
    Copy(2);
    return static_cast<char32_t>(c);
  }

  void Property() {
    const std::size_t close = pattern_.find('}', at_);
    if (!Ahead(pattern_[at_ + 1] == 'p' ? "\\p{" : "\\P{") || close == std::string_view::npos) {
      RefuseHere("a property is written as \\p{L}");
    }
    const std::string_view name = pattern_.substr(at_ + 3, close - at_ - 3);
    if (std::find(std::begin(kCategories), std::end(kCategories), name) == std::end(kCategories)) {
      RefuseHere("of properties, only general categories such as \\p{L} or \\p{Nd} are supported");
    }
    Copy(close + 1 - at_);
  }

  char32_t HexCharacter() {
    char32_t value = 0;
    if (at_ + 6 > pattern_.size()) RefuseHere("\\u needs four hexadecimal digits");
    for (std::size_t k = 2; k < 6; ++k) {
      const int digit = HexDigit(pattern_[at_ + k]);
      if (digit < 0) RefuseHere("\\u needs four hexadecimal digits");
      value = value * 16 + static_cast<char32_t>(digit);
    }
    if (value >= 0xD800 && value < 0xE000) RefuseHere("a surrogate is no character");
    result_ += fmt::format("\\x{{{:X}}}", static_cast<std::uint32_t>(value));
    at_ += 6;
    return value;
  }
  static int HexDigit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  }

  void Class() {
    RequireCase();
    Copy(1);
    if (Ahead("^")) Copy(1);
    if (Ahead("]")) RefuseHere("a class must name a character");
    std::optional<char32_t> previous;
    while (at_ < pattern_.size() && pattern_[at_] != ']') {
      const bool range = previous && Ahead("-") && !Ahead("-]");
      if (range) Copy(1);
      const std::optional<char32_t> character = ClassCharacter();
      if (range && (!character || *character < *previous)) RefuseHere("a range ends before it");
      if (character && HasStandIns(range ? *previous : *character, *character)) {
        RefuseHere("the class names characters that are newer than Unicode 14");
      }
      previous = range ? std::nullopt : character;
    }
    if (at_ >= pattern_.size()) Refuse("lacks a closing ']'");
    Copy(1);
  }

  std::optional<char32_t> ClassCharacter() {
    if (at_ >= pattern_.size()) Refuse("lacks a closing ']'");
    if (pattern_[at_] == '\\') return Escape(/*in_class=*/true);
    if (pattern_[at_] == '[' || Ahead("&&")) RefuseHere("classes within classes are not supported");
    const CodePoint character = CodePointAt(pattern_, at_);
    Copy(character.bytes);
    return character.value;
  }

  std::string_view pattern_;
  const std::string& where_;
  std::size_t at_ = 0;
  std::string result_;
  std::vector<bool> caseless_ = {false};  // by open group, the whole pattern first
};

}  // namespace

std::string PatternForPcre2(std::string_view pattern, const std::string& where) {
  return PatternReader(pattern, where).Read();
}

}  // namespace twin::text
