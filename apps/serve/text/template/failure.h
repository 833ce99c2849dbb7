// Limits of one rendering, and the error by which a template's evaluation ends.
#pragma once

#include <fmt/format.h>

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
// Bytes of the output, and of each text on the way to it.
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

[[noreturn]] inline void Fail(const std::string& message) { throw Failure(message); }

// Steps that a rendering may still take. Each tree node costs one step; work on long texts and
// lists costs more, so that the limit bounds time and memory too.
class Budget {
 public:
  void Spend(std::uint64_t steps) {
    if (steps > left_) Fail(fmt::format("the template takes more than {} steps", kStepsMost));
    left_ -= steps;
  }
  // Spends the steps for reading or making `bytes` bytes.
  void SpendBytes(std::uint64_t bytes) { Spend(bytes / kBytesPerStep); }

 private:
  static constexpr std::uint64_t kBytesPerStep = 256;

  std::uint64_t left_ = kStepsMost;
};

// A growing text that fails instead of exceeding kTextBytesMost.
class BoundedText {
 public:
  void Append(std::string_view part) {
    if (part.size() > kTextBytesMost - text_.size()) FailTooLong();
    text_ += part;
  }
  void Append(char part) { Append(std::string_view(&part, 1)); }
  // Appends `count` copies of `part`.
  void Repeat(std::string_view part, std::uint64_t count) {
    if (part.empty()) return;
    if (count > (kTextBytesMost - text_.size()) / part.size()) FailTooLong();
    for (std::uint64_t i = 0; i < count; ++i) text_ += part;
  }
  [[nodiscard]] std::string Take() { return std::move(text_); }

 private:
  [[noreturn]] static void FailTooLong() {
    Fail(fmt::format("a text grows beyond {} bytes", kTextBytesMost));
  }

  std::string text_;
};

}  // namespace twin::text::jinja
