#include "traces/words.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>

#include "core/letter_case.h"
#include "core/number_text.h"

namespace twin {
namespace {

// Words in small letters, without blanks and quotes around them. In a status, _ and - are blanks,
// and a dotted name ("Status.COMPLETED") counts as its last part.
constexpr std::string_view kNothing[] = {
    "",       "-",      "--",      ".",       "?",       "[]",          "{}",
    "()",     "na",     "n/a",     "#n/a",    "#na",     "#n/a n/a",    "<na>",
    "nan",    "-nan",   "+nan",    "1.#ind",  "-1.#ind", "1.#qnan",     "-1.#qnan",
    "none",   "null",   "nil",     "nat",     "#null!",  "#value!",     "undefined",
    "\\n",    "(null)", "(none)",  "(empty)", "unset",   "missing",     "nothing",
    "<none>", "<null>", "<empty>", "<unset>", "<nat>",   "character(0)"};
// The first two are data frames' own.
constexpr std::string_view kRowNames[] = {"",           "Unnamed: 0", "index", "id",
                                          "request_id", "request",    "req"};
constexpr std::string_view kYes[] = {"true", "t", "yes", "y", ".true."};
constexpr std::string_view kNo[] = {"false", "f", "no", "n", ".false."};
constexpr std::string_view kSuccess[] = {
    "ok",       "okay",         "success",          "successful", "succeeded",
    "succeed",  "successfully", "complete",         "completed",  "done",
    "finished", "pass",         "passed",           "stop",       "finished length capped",
    "length",   "eos",          "finished stopped", "no error",   "no errors",
};
constexpr std::string_view kFailure[] = {"fail",
                                         "failed",
                                         "failure",
                                         "error",
                                         "errored",
                                         "err",
                                         "exception",
                                         "timeout",
                                         "time out",
                                         "timed out",
                                         "timedout",
                                         "cancel",
                                         "cancelled",
                                         "canceled",
                                         "abort",
                                         "aborted",
                                         "reject",
                                         "rejected",
                                         "refused",
                                         "drop",
                                         "dropped",
                                         "killed",
                                         "oom",
                                         "crash",
                                         "crashed",
                                         "incomplete",
                                         "unfinished",
                                         "interrupted",
                                         "disconnect",
                                         "disconnected",
                                         "unavailable",
                                         "expired",
                                         "lost",
                                         "invalid",
                                         "bad request",
                                         "too many requests",
                                         "rate limited",
                                         "throttled",
                                         "overloaded",
                                         "preempted",
                                         "evicted",
                                         "skipped",
                                         "server error",
                                         "internal server error",
                                         "out of memory",
                                         "finished aborted",
                                         "finished ignored",
                                         "finished error",
                                         "not finished",
                                         "pending",
                                         "running",
                                         "waiting",
                                         "queued",
                                         "connection error"};

bool IsAny(std::string_view word, std::span<const std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kAround = " \t\r\n\"'";
  const std::size_t begin = text.find_first_not_of(kAround);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kAround) - begin + 1);
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), LowerCase);
  return lower;
}

Outcome FindCodeOutcome(double code) {
  if (code == 0 || (code >= 200 && code <= 299 && code == std::floor(code))) {
    return Outcome::kSuccess;
  }
  return code == std::floor(code) && std::abs(code) < 1e6 ? Outcome::kFailure : Outcome::kUnknown;
}

// The code in "200 OK", "HTTP 200" and "HTTP/1.1 200 OK".
std::optional<double> CodeOf(std::string_view word) {
  if (word.starts_with("http")) {
    const std::size_t blank = word.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    word.remove_prefix(blank + 1);
  }
  if (const std::optional<double> number = NumberFrom<double>(word)) return number;
  constexpr std::size_t kDigits = 3;
  if (word.size() <= kDigits || word[kDigits] != ' ') return std::nullopt;
  return NumberFrom<double>(word.substr(0, kDigits));
}

}  // namespace

bool MeansNothing(std::string_view text) {
  const std::string_view word = Trimmed(text);
  constexpr std::size_t kLongest = 12;
  const std::size_t digit = word.starts_with('-') ? 1 : 0;
  const bool number = digit < word.size() && word[digit] >= '0' && word[digit] <= '9';
  if (number && word.find('#') == std::string_view::npos) return false;  // most fields
  return word.empty() || (word.size() <= kLongest && IsAny(Lower(word), kNothing));
}

Outcome FindOutcome(std::string_view status) {
  if (MeansNothing(status)) return Outcome::kNothing;
  std::string word = Lower(Trimmed(status));
  if (const std::optional<double> code = CodeOf(word)) return FindCodeOutcome(*code);
  if (IsAny(word, kYes)) return Outcome::kSuccess;
  if (IsAny(word, kNo)) return Outcome::kFailure;
  word.erase(0, word.rfind('.') + 1);
  std::ranges::replace(word, '_', ' ');
  std::ranges::replace(word, '-', ' ');
  if (IsAny(word, kSuccess)) return Outcome::kSuccess;
  return IsAny(word, kFailure) ? Outcome::kFailure : Outcome::kUnknown;
}

bool NamesError(std::string_view error) {
  const std::string word = Lower(Trimmed(error));
  if (IsAny(word, kYes)) return true;
  if (IsAny(word, kNo)) return false;
  const Outcome outcome = FindOutcome(error);
  return outcome == Outcome::kFailure || outcome == Outcome::kUnknown;
}

bool NamesRows(std::string_view name) { return IsAny(name, kRowNames); }

}  // namespace twin
