#include "apps/serve/text/template/failure.h"

#include <fmt/format.h>

namespace twin::text::jinja {

void Fail(const std::string& message) { throw Failure(message); }

void Budget::Exhausted() { Fail(fmt::format("the template takes more than {} steps", kStepsMost)); }

void BoundedText::Repeat(std::string_view part, std::uint64_t count) {
  if (part.empty()) return;
  if (count > (kTextBytesMost - text_.size()) / part.size()) TooLong();
  for (std::uint64_t i = 0; i < count; ++i) text_ += part;
}

void BoundedText::TooLong() { Fail(fmt::format("a text grows beyond {} bytes", kTextBytesMost)); }

}  // namespace twin::text::jinja
