// CSV as spreadsheets and data frames write it, read by record and by the names of columns.
#include "core/files/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/input_error.h"
#include "tests/support/unique_name.h"

namespace twin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::vector<std::string>> RecordsOf(std::string text) {
  LineReader lines("file", MemoryBytes(std::move(text)));
  CsvReader file(lines);
  std::vector<std::vector<std::string>> records;
  while (file.Next()) records.emplace_back(file.cells().begin(), file.cells().end());
  return records;
}

TEST(CsvReaderTest, QuotesHoldSeparatorsLineBreaksAndDoubledQuotes) {
  EXPECT_THAT(RecordsOf("a,\"b, c\",d\n\"1\n2\",\"say \"\"hi\"\"\",\"\"\nx\"y,,z\n"),
              ElementsAre(ElementsAre("a", "b, c", "d"), ElementsAre("1\n2", "say \"hi\"", ""),
                          ElementsAre("x\"y", "", "z")));
}

TEST(CsvReaderTest, TheHeaderTellsTheSeparator) {
  EXPECT_THAT(RecordsOf("a;b,c;d\n1;2;3\n"),
              ElementsAre(ElementsAre("a", "b,c", "d"), ElementsAre("1", "2", "3")));
  EXPECT_THAT(RecordsOf("\"a;b;c\",d\n1,2\n"),
              ElementsAre(ElementsAre("a;b;c", "d"), ElementsAre("1", "2")));
  EXPECT_THAT(RecordsOf("a\tb\n1\t2\n"), ElementsAre(ElementsAre("a", "b"), ElementsAre("1", "2")));
}

TEST(CsvReaderTest, RowsWithoutAnyTextAreSkipped) {
  EXPECT_THAT(RecordsOf("a,b\n1,2\n,\n"),
              ElementsAre(ElementsAre("a", "b"), ElementsAre("1", "2")));
}

class CsvTableTest : public ::testing::Test {
 protected:
  CsvTableTest()
      : path_(std::filesystem::temp_directory_path() / testing::UniqueName("table.csv")) {}
  ~CsvTableTest() override { std::filesystem::remove(path_); }

  [[nodiscard]] std::string Holding(const std::string& text) const {
    std::ofstream(path_, std::ios::binary) << text;
    return path_.string();
  }
  // The error of the header, or of the first row in `use`, without the name of the file.
  std::string Refusal(
      const std::string& text, const std::vector<std::string_view>& required = {},
      const std::function<void(const CsvTable&)>& use = [](const CsvTable&) {}) {
    try {
      CsvTable table(Holding(text), required);
      while (table.Next()) use(table);
    } catch (const InputError& error) {
      return std::string(error.what()).substr(path_.string().size());
    }
    return "accepted";
  }

  std::filesystem::path path_;
};

TEST_F(CsvTableTest, GivesTheFieldsOfEachRowByTheNamesOfTheirColumns) {
  CsvTable table(Holding("\xEF\xBB\xBFname,\"size, MiB\"\r\n\"a,\"\"b\"\"\",12\r\nc,\r\n"),
                 {"name"});
  EXPECT_THAT(table.columns(), ElementsAre("name", "size, MiB"));
  EXPECT_TRUE(table.Has("size, MiB"));
  EXPECT_FALSE(table.Has("size"));
  ASSERT_TRUE(table.Next());
  EXPECT_EQ(table.Text("name"), "a,\"b\"");
  EXPECT_EQ(table.Integer("size, MiB", 0, 99), 12);
  EXPECT_EQ(table.lines().line_number(), 2);
  ASSERT_TRUE(table.Next());
  EXPECT_THAT(table.cells(), ElementsAre("c", ""));
  EXPECT_FALSE(table.Next());
}

TEST_F(CsvTableTest, AColumnMayHaveItsNameInAnotherProgram) {
  const std::vector<CsvTable::Synonym> synonyms = {{"batch_size", "batch"}, {"dtype", "format"}};
  CsvTable other(Holding("batch_size\n7\n"), {"batch"}, synonyms);
  ASSERT_TRUE(other.Next());
  EXPECT_EQ(other.Text("batch"), "7");
  EXPECT_FALSE(other.Has("format"));
  CsvTable both(Holding("batch_size,batch\n7,8\n"), {"batch"}, synonyms);
  ASSERT_TRUE(both.Next());
  EXPECT_EQ(both.Text("batch"), "8");
}

TEST_F(CsvTableTest, ATableThatIsNoneIsRefusedInOneLine) {
  EXPECT_EQ(Refusal(""), ":0: header: the file is empty; allowed: a line that names the columns");
  EXPECT_EQ(Refusal("", {"m", "n"}),
            ":0: header: the file is empty; allowed: the columns m, n, and others");
  EXPECT_EQ(Refusal("m,k\n", {"m", "n"}),
            ":1: header: column 'n' is missing; allowed: the columns m, n, and others");
  EXPECT_EQ(Refusal("m,n,m\n"), ":1: header: found 'm'; allowed: each column once");
  EXPECT_EQ(Refusal("m,n\n1,2\n\n1\n"), ":4: row: has 1 fields; allowed: 2, as the header");
  EXPECT_THAT(Refusal("m,n\n1,\"2\n"),
              HasSubstr(":2: row: found '1,\"2', whose quote is never closed"));
  EXPECT_THAT(Refusal("m,n\n1,\"2\"3\n"),
              HasSubstr(":2: row: found '\"2\"3'; allowed: nothing behind the closing quote"));
}

TEST_F(CsvTableTest, AFieldThatIsNotAllowedIsNamedWithItsLine) {
  const std::vector<std::pair<std::string_view, int>> words = {{"fp8", 1}, {"bf16", 2}};
  const auto refusal = [this](const std::string& cell, const auto& use) {
    return Refusal("m,x\n1," + cell + "\n", {"x"}, use);
  };
  EXPECT_EQ(refusal("1.5", [](const CsvTable& t) { (void)t.Integer("x", 1, 9); }),
            ":2: x: found '1.5'; allowed: an integer from 1 to 9");
  EXPECT_EQ(refusal("0", [](const CsvTable& t) { (void)t.Positive("x", 9); }),
            ":2: x: found '0'; allowed: a number above 0");
  EXPECT_EQ(refusal("int4", [&](const CsvTable& t) { (void)t.Word("x", words, 0); }),
            ":2: x: found 'int4'; allowed: fp8, bf16");
  EXPECT_EQ(refusal("7", [](const CsvTable& t) { t.Refuse("x", "a multiple of 2"); }),
            ":2: x: found '7'; allowed: a multiple of 2");
}

TEST_F(CsvTableTest, WordsAreReadInAnyCaseAndMayBeMissing) {
  const std::vector<std::pair<std::string_view, int>> words = {{"fp8", 1}, {"bf16", 2}};
  CsvTable table(Holding("a,b\nBF16,\n"));
  ASSERT_TRUE(table.Next());
  EXPECT_EQ(table.Word("a", words, 0), 2);
  EXPECT_EQ(table.Word("b", words, 0), 0);
  EXPECT_EQ(table.Word("c", words, 0), 0);
}

}  // namespace
}  // namespace twin
