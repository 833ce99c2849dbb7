#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "core/csv.h"

namespace twin {
namespace {

TEST(CsvLineTest, CellsAreQuotedWhereTheyHaveToBe) {
  EXPECT_EQ(CsvRow({"plain", "a b;c", "", "a,b", "say \"hi\"", "two\nlines", "cr\r"}),
            "plain,a b;c,,\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\",\"cr\r\"\n");
}

TEST(CsvLineTest, WhatIsWrittenIsReadBack) {
  const std::vector<std::string> cells = {"", ",", "\"", "\"\"", "a,\"b\"", "\n", "x"};
  std::string row = CsvRow(cells);
  row.pop_back();
  CsvCells split;
  EXPECT_EQ(split.Split(row), CsvCells::Result::kSplit);
  EXPECT_EQ(std::vector<std::string>(split.cells().begin(), split.cells().end()), cells);
}

TEST(CsvLineTest, TakesNumbersAndTimesInTheUnitsOfTheirColumns) {
  CsvLine line;
  std::ostringstream out;
  line.Count(-7)
      .Count(std::numeric_limits<std::uint64_t>::max())
      .Number(0.1)
      .Seconds(kTimeZero + std::chrono::milliseconds(1500))
      .Milliseconds(Duration{1})
      .Nothing()
      .WriteTo(out);
  EXPECT_EQ(out.str(), "-7,18446744073709551615,0.1,1.5,0.000001,\n");
}

TEST(CsvLineTest, StartsAnewBehindEachLine) {
  CsvLine line;
  std::string text;
  line.Word("a").Word("b").AppendTo(text);
  line.Count(1).AppendTo(text);
  EXPECT_EQ(text, "a,b\n1\n");
}

}  // namespace
}  // namespace twin
