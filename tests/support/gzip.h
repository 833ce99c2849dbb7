// Compressed text for readers under test.
#pragma once

#include <string>

namespace twin::testing {

// `text` as one gzip member.
std::string Gzip(const std::string& text);

}  // namespace twin::testing
