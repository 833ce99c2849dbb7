#include "apps/serve/text/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <optional>

#include "apps/serve/text/characters.h"
#include "core/check.h"
#include "core/input_error.h"

namespace twin::text {

namespace {

// Bounds on the steps of a match. Known patterns take some steps for each byte of a match.
constexpr std::uint32_t kMatchStepsLeast = 1u << 24;
constexpr std::size_t kMatchStepsPerByte = 16;
constexpr std::uint32_t kMatchHeapKib = 1u << 18;
constexpr std::size_t kJitStackStart = std::size_t{32} << 10;
constexpr std::size_t kJitStackMax = std::size_t{16} << 20;

std::string Pcre2Message(int code) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

template <auto kFree>
struct FreedBy {
  template <typename T>
  void operator()(T* pointer) const {
    kFree(pointer);
  }
};

using MatchResult = std::unique_ptr<pcre2_match_data, FreedBy<pcre2_match_data_free>>;
using MatchLimits = std::unique_ptr<pcre2_match_context, FreedBy<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, FreedBy<pcre2_jit_stack_free>>;

constexpr std::int64_t kMatchNs = 5'000'000'000;
constexpr std::int64_t kMatchNsPerByte = 5'000;
constexpr int kMatchesPerLook = 64;  // the clock is read once in so many matches

thread_local std::int64_t match_end_ns = INT64_MAX;
thread_local int matches_unseen = 0;

// Processor time of this thread. A thread that waits for a processor spends none.
std::int64_t ThreadNanoseconds() {
  timespec now{};
  CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void SpendTime() {
  if (++matches_unseen < kMatchesPerLook) return;
  matches_unseen = 0;
  if (match_end_ns == INT64_MAX || ThreadNanoseconds() < match_end_ns) return;
  throw InputError(InputError::Kind::kData, "text",
                   "takes the patterns of its tokenizer too long to cut into words");
}

// Memory and limits for matching any pattern. One per thread: words are short, and making it anew
// for each would take longer than to match.
class Matcher {
 public:
  Matcher() : result_(pcre2_match_data_create(1, nullptr)) {
    CHECK(result_ != nullptr && limits_ != nullptr);
    pcre2_set_heap_limit(limits_.get(), kMatchHeapKib);
  }

  // To be called before the first Find() in a text of so many bytes.
  void Begin(std::size_t text_bytes) {
    const std::size_t steps = kMatchStepsLeast + kMatchStepsPerByte * text_bytes;
    const auto limit = static_cast<std::uint32_t>(std::min<std::size_t>(steps, UINT32_MAX));
    if (limit == limit_) return;
    limit_ = limit;
    pcre2_set_match_limit(limits_.get(), limit);
    pcre2_set_depth_limit(limits_.get(), limit);
  }

  // The first match from byte `at` on; nullopt if there is none.
  std::optional<Span> Find(const pcre2_code* code, std::string_view text, std::size_t at) {
    SpendTime();
    int found = Match(code, text, at);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT && stack_ == nullptr) {
      stack_.reset(pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr));
      pcre2_jit_stack_assign(limits_.get(), nullptr, stack_.get());
      found = Match(code, text, at);
    }
    if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
    if (found < 0) {
      throw InputError(
          InputError::Kind::kData, "text",
          fmt::format("cannot be cut into words behind byte {}: {}", at, Pcre2Message(found)));
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(result_.get());
    return Span{range[0], range[1]};
  }

 private:
  int Match(const pcre2_code* code, std::string_view text, std::size_t at) {
    return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                       PCRE2_NO_UTF_CHECK, result_.get(), limits_.get());
  }

  std::uint32_t limit_ = 0;
  MatchResult result_;  // holds the whole match, no groups
  MatchLimits limits_{pcre2_match_context_create(nullptr)};
  JitStack stack_;
};

}  // namespace

MatchTime::MatchTime(std::size_t text_bytes) {
  match_end_ns =
      ThreadNanoseconds() + kMatchNs + static_cast<std::int64_t>(text_bytes) * kMatchNsPerByte;
}

MatchTime::~MatchTime() { match_end_ns = INT64_MAX; }

struct SplitPattern::Compiled {
  std::unique_ptr<pcre2_code, FreedBy<pcre2_code_free>> code;
};

SplitPattern::SplitPattern(std::string_view pattern, const std::string& where) {
  const std::string rewritten = PatternForPcre2(pattern, where);
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto compiled = std::make_unique<Compiled>();
  compiled->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten.data()),
                                     rewritten.size(), PCRE2_UTF | PCRE2_UCP, &error, &offset,
                                     nullptr));
  if (compiled->code == nullptr) {
    throw InputError(InputError::Kind::kData, where,
                     fmt::format("the pattern is not valid: {}", Pcre2Message(error)));
  }
  std::uint32_t matches_empty = 0;
  pcre2_pattern_info(compiled->code.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0) {
    throw InputError(InputError::Kind::kData, where,
                     "the pattern matches the empty text; it must match at least one character");
  }
  // Where the processor has no JIT, pcre2_match() interprets the pattern.
  pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);
  compiled_ = std::move(compiled);
}

SplitPattern::~SplitPattern() = default;
SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;
SplitPattern& SplitPattern::operator=(SplitPattern&&) noexcept = default;

void SplitPattern::FindAll(std::string_view text, std::vector<Span>& matches) const {
  const std::optional<std::string> known = WithKnownCharacters(text, PatternUnicodeVersion());
  const std::string_view subject = known ? std::string_view(*known) : text;
  thread_local Matcher matcher;
  matcher.Begin(subject.size());
  std::size_t at = 0;
  while (at < subject.size()) {
    const std::optional<Span> match = matcher.Find(compiled_->code.get(), subject, at);
    if (!match) return;
    CHECK(match->begin >= at && match->end > match->begin);
    matches.push_back(*match);
    at = match->end;
  }
}

}  // namespace twin::text
