// Limits of one rendering, and the error by which a template's evaluation ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace twin::text::jinja {

inline constexpr std::size_t kTemplateBytesMost = 256 * 1024;
// Nesting of statements and expressions in a template, and of macro calls.
inline constexpr int kNestingMost = 64;
// Nesting of all that is being evaluated at one time: it bounds the stack.
inline constexpr int kEvaluationDepthMost = 1024;
// Nesting of lists and objects in a value.
inline constexpr int kValueDepthMost = 128;
inline constexpr std::uint64_t kStepsMost = 1'000'000;
// The output, and each text on the way to it.
inline constexpr std::size_t kTextBytesMost = 16 * 1024 * 1024;
inline constexpr std::size_t kElementsMost = 1'000'000;

// Evaluation cannot go on. Render() turns it into an InputError that names the template's line.
class Failure : public std::runtime_error {
 public:
  // `raised`: the message is the template author's own, by raise_exception().
  explicit Failure(const std::string& message, bool raised = false)
      : std::runtime_error(message), raised_(raised) {}

  [[nodiscard]] bool raised() const { return raised_; }

 private:
  bool raised_;
};

[[noreturn]] void Fail(const std::string& message);

// Steps that a rendering may still take. Each tree node costs one step; work on long texts and
// lists costs more, so that the limit bounds time and memory too.
class Budget {
 public:
  void Spend(std::uint64_t steps) {
    if (steps > left_) Exhausted();
    left_ -= steps;
  }
  // Reading or making that many bytes.
  void SpendBytes(std::uint64_t bytes) { Spend(bytes / kBytesPerStep); }

 private:
  static constexpr std::uint64_t kBytesPerStep = 256;

  [[noreturn]] static void Exhausted();

  std::uint64_t left_ = kStepsMost;
};

// A growing text that fails instead of exceeding kTextBytesMost.
class BoundedText {
 public:
  void Append(std::string_view part) {
    if (part.size() > kTextBytesMost - text_.size()) TooLong();
    text_ += part;
  }
  void Append(char part) { Append(std::string_view(&part, 1)); }
  // `count` copies of `part`.
  void Repeat(std::string_view part, std::uint64_t count);
  [[nodiscard]] std::string Take() { return std::move(text_); }

 private:
  [[noreturn]] static void TooLong();

  std::string text_;
};

}  // namespace twin::text::jinja
