#include "core/printable.h"

#include <gtest/gtest.h>

namespace twin {
namespace {

TEST(PrintableTest, LeavesPlainTextAlone) { EXPECT_EQ(Printable("a b~"), "a b~"); }

TEST(PrintableTest, WritesOtherBytesAsHexadecimalNumbers) {
  EXPECT_EQ(Printable(std::string_view("a\n\0\xff\x7f", 5)), "a\\x0a\\x00\\xff\\x7f");
}

TEST(PrintableTest, SaysThatTextWentOn) {
  EXPECT_EQ(Printable("abcdef", 6), "abcdef");
  EXPECT_EQ(Printable("abcdefg", 6), "abcdef...");
}

}  // namespace
}  // namespace twin
