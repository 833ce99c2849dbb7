// twinserve report: what the page holds, and what it refuses.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "apps/page/plotly.h"
#include "apps/report/report.h"
#include "core/csv.h"
#include "core/input_error.h"
#include "tests/unit/apps/experiment_folder.h"
#include "tests/unit/apps/measured_files.h"

namespace twin::apps {
namespace {

using nlohmann::json;
using testing::CommandOutcome;
using ::testing::HasSubstr;
using ::testing::Not;

class ReportCommandTest : public testing::ExperimentFolderTest {
 protected:
  void SetUp() override {
    if (run::PlotlyScript().empty()) GTEST_SKIP() << "tools/fetch_plotly has not been run";
  }

  // The page that `arguments` write, without the library in it.
  [[nodiscard]] std::string PageOf(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "report");
    arguments.insert(arguments.end(), {"--out", "page.html"});
    const CommandOutcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    std::string page = ReadText(scratch_.File("page.html"));
    const std::size_t at = page.find(run::PlotlyScript());
    EXPECT_NE(at, std::string::npos) << "the library is not in the page";
    if (at != std::string::npos) page.erase(at, run::PlotlyScript().size());
    return page;
  }

  // The line with which the page of a run is refused for its data, or nothing. Calls what the
  // command calls: under sanitizers, a program takes a third of a second to start.
  [[nodiscard]] std::optional<std::string> RefusalOf(const std::string& run) const {
    const std::vector<std::filesystem::path> paths{scratch_.File(run)};
    try {
      EXPECT_THAT(run::RunsPage(paths), ::testing::EndsWith("</html>\n"));
      return std::nullopt;
    } catch (const InputError& error) {
      EXPECT_EQ(error.exit_code(), 1) << error.what();
      return error.what();
    }
  }

  // The figures of a page: their data and layouts.
  static json Figures(const std::string& page) {
    const std::string begin = "id=\"figures\">";
    const std::size_t at = page.find(begin) + begin.size();
    return json::parse(page.substr(at, page.find("</script>", at) - at), nullptr, false);
  }

  // Titles of the figures, in the order of the page.
  static std::vector<std::string> Titles(const std::string& page) {
    const std::regex caption("<figcaption>([^<]*)</figcaption>");
    std::vector<std::string> titles;
    for (std::sregex_iterator it(page.begin(), page.end(), caption), end; it != end; ++it) {
      titles.push_back((*it)[1]);
    }
    return titles;
  }

  static std::size_t Count(const std::string& page, const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = page.find(text); at != std::string::npos; at = page.find(text, at + 1)) {
      ++count;
    }
    return count;
  }

  static constexpr const char* kStudyTable =
      "point,policy.vllm_v1.max_num_seqs,workload.arrivals.rate,n,errors,saturated,slo_attainment,"
      "slo_attainment_low,slo_attainment_high,p99_ttft_ms,p99_ttft_ms_low,p99_ttft_ms_high\n"
      "0,8,1,3,0,no,1,1,1,50,45,55\n"
      "1,8,2,3,0,yes,0.5,0.4,0.6,9000,8000,10000\n"
      "2,16,1,3,0,no,1,1,1,40,36,44\n"
      "3,16,2,3,1,no,0.75,0.7,0.8,80,72,88\n";

  void WriteStudy() const {
    std::filesystem::create_directory(scratch_.File("study"));
    Write("study/summary.csv", kStudyTable);
  }
};

TEST_F(ReportCommandTest, ShowsTheNumbersOfTheSummary) {
  const json summary = RunSmall("run", {"--set", "slo.ttft_s=1"});
  const std::string page = PageOf({"run"});
  for (const char* name : {"mean_ttft_ms", "p99_tpot_ms", "request_throughput"}) {
    EXPECT_THAT(page, HasSubstr(fmt::format("<td>{}</td>", name)));
    EXPECT_THAT(page, HasSubstr(fmt::format("{:.4g}", summary[name].get<double>()))) << name;
  }
  EXPECT_THAT(page, HasSubstr(summary["digest"].get<std::string>()));
  EXPECT_THAT(page, HasSubstr("max_num_seqs 16"));
  EXPECT_THAT(page, HasSubstr("aturated: "));
}

TEST_F(ReportCommandTest, NamesReplicasAndTheirRouter) {
  (void)RunSmall("one");
  EXPECT_THAT(PageOf({"one"}), Not(HasSubstr("<td>replicas</td>")));
  (void)RunSmall("three", {"--set", "system.replicas=3", "--set", "system.router.kind=LEAST_KV"});
  EXPECT_THAT(PageOf({"three"}), HasSubstr("<td>3, router LEAST_KV</td>"));
}

TEST_F(ReportCommandTest, NeedsNoNetwork) {
  (void)RunSmall("run");
  const std::string page = PageOf({"run"});
  for (const char* reference : {"src=", "href=", "@import", "url(", "http://", "https://"}) {
    EXPECT_THAT(page, Not(HasSubstr(reference)));
  }
}

TEST_F(ReportCommandTest, ElementsOfThePageAreClosed) {
  (void)RunSmall("run");
  const std::string page = PageOf({"run", "run"});
  EXPECT_THAT(page, ::testing::StartsWith("<!doctype html>"));
  EXPECT_THAT(page, ::testing::EndsWith("</body></html>\n"));
  for (const char* tag : {"div", "table", "tr", "td", "th", "figure", "figcaption", "details",
                          "pre", "script", "style", "head", "body", "p", "h1", "h2"}) {
    const std::size_t opened =
        Count(page, fmt::format("<{}>", tag)) + Count(page, fmt::format("<{} ", tag));
    EXPECT_EQ(opened, Count(page, fmt::format("</{}>", tag))) << tag;
  }
}

TEST_F(ReportCommandTest, EachFigureHasItsData) {
  (void)RunSmall("run");
  const std::string page = PageOf({"run"});
  const json figures = Figures(page);
  const std::vector<std::string> titles = Titles(page);
  ASSERT_EQ(figures.size(), titles.size());
  EXPECT_THAT(titles, ::testing::IsSupersetOf({"Over time: time to first token",
                                               "Distribution: time per output token",
                                               "Distribution: gaps between tokens (ITL)",
                                               "KV cache in use", "Tokens per step"}));
  for (std::size_t i = 0; i < titles.size(); ++i) {
    EXPECT_FALSE(figures[i]["data"].empty()) << titles[i];
    EXPECT_THAT(page, HasSubstr(fmt::format("id=\"figure-{}\"", i)));
  }
}

TEST_F(ReportCommandTest, ADistributionEndsAtTheLargestValue) {
  const json summary = RunSmall("run");
  const std::string page = PageOf({"run"});
  const json figures = Figures(page);
  const std::vector<std::string> titles = Titles(page);
  const auto at = std::find(titles.begin(), titles.end(), "Distribution: end-to-end latency");
  ASSERT_NE(at, titles.end());
  const json& curve = figures[static_cast<std::size_t>(at - titles.begin())]["data"][0];
  EXPECT_EQ(curve["x"].size(), 200u);
  EXPECT_NEAR(curve["x"].back().get<double>(), summary["max_e2el_ms"].get<double>(), 1);
  EXPECT_EQ(curve["y"].back(), 1);
}

TEST_F(ReportCommandTest, PutsAMeasuredRunBesideASimulatedOne) {
  (void)RunSmall("a");
  Write("vllm.json", std::string(R"({"model_id": "llama", "tp": "2", "request_rate": 10.0, )") +
                         testing::MeasuredVllm().substr(1));
  const std::string page = PageOf({"a", "vllm.json"});
  EXPECT_THAT(page, HasSubstr("vllm.json: measured (vLLM bench): 3 of 4 requests completed"));
  EXPECT_THAT(page, HasSubstr("<td>recorded send times, 10/s</td>"));
  EXPECT_THAT(page, HasSubstr("<td>tensor parallel 2</td>"));
  const json figures = Figures(page);
  const std::vector<std::string> titles = Titles(page);
  const auto at = std::find(titles.begin(), titles.end(), "Distribution: time to first token");
  ASSERT_NE(at, titles.end());
  const json& curves = figures[static_cast<std::size_t>(at - titles.begin())]["data"];
  ASSERT_EQ(curves.size(), 2u);
  EXPECT_EQ(curves[1]["name"], "vllm.json");
  EXPECT_EQ(curves[1]["x"], (json{20, 20, 30}));
}

TEST_F(ReportCommandTest, AMeasuredRunNeedsNoTimesOfSendingAndNoRequests) {
  Write("sglang.jsonl", testing::MeasuredSglang());
  Write("totals.json",
        R"({"completed": 3, "total_input_tokens": 300, "total_output_tokens": 15,
            "mean_ttft_ms": 21.25, "request_throughput": 7})");
  const std::string page = PageOf({"sglang.jsonl", "totals.json"});
  EXPECT_THAT(page, HasSubstr("21.25"));
  EXPECT_THAT(Titles(page), Not(::testing::Contains("Over time: time to first token")));
  EXPECT_THAT(Titles(page), ::testing::Contains("Distribution: time to first token"));
}

TEST_F(ReportCommandTest, PutsRunsSideBySideAndSaysWhatDiffers) {
  (void)RunSmall("a");
  (void)RunSmall("b", {"--set", "policy.vllm_v1.max_num_seqs=4"});
  const std::string page = PageOf({"a", "b"});
  EXPECT_THAT(page, HasSubstr("<td>policy.vllm_v1.max_num_seqs</td><td class=\"n\">16</td><td "
                              "class=\"n\">4</td>"));
  EXPECT_EQ(Figures(page)[0]["data"].size(), 2u);
}

TEST_F(ReportCommandTest, AStudyHasALinePerConfigurationWithHollowSaturatedPoints) {
  WriteStudy();
  const std::string page = PageOf({"study"});
  EXPECT_EQ(Titles(page),
            (std::vector<std::string>{"SLO attainment (% of requests)", "p99 TTFT (ms)"}));
  const json figures = Figures(page);
  std::vector<json> lines;
  for (const json& trace : figures[1]["data"]) {
    if (trace["mode"] == "lines+markers") lines.push_back(trace);
  }
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["name"], "max_num_seqs = 8");
  EXPECT_EQ(lines[0]["x"], json::parse("[1, 2]"));
  EXPECT_EQ(lines[0]["y"], json::parse("[50, 9000]"));
  EXPECT_EQ(lines[0]["marker"]["symbol"], json::parse(R"(["circle", "circle-open"])"));
  EXPECT_NE(lines[0]["line"], lines[1]["line"]);
  EXPECT_EQ(figures[1]["layout"]["yaxis"]["type"], "log");
  EXPECT_EQ(figures[0]["layout"]["shapes"][0]["y0"], 90);
  EXPECT_THAT(page, HasSubstr("9000 [8000, 10000]"));
  EXPECT_THAT(page, HasSubstr("1 runs failed"));
}

TEST_F(ReportCommandTest, AnAxisFarFromZeroDoesNotBeginThere) {
  WriteStudy();
  const json near = Figures(PageOf({"study"}));  // rates 1 and 2
  EXPECT_FALSE(near[0]["layout"]["xaxis"].contains("rangemode"));
  Write(
      "study/summary.csv",
      "point,workload.arrivals.rate,n,errors,saturated,p99_ttft_ms\n0,1,3,0,no,5\n1,3,3,0,no,6\n");
  const json wide = Figures(PageOf({"study"}));
  EXPECT_EQ(wide[0]["layout"]["xaxis"]["rangemode"], "tozero");
}

TEST_F(ReportCommandTest, UndecidedPointsHaveADotAndAreCounted) {
  WriteStudy();
  Write("study/summary.csv",
        "point,workload.arrivals.rate,n,errors,saturated,p99_ttft_ms\n0,1,3,0,no,5\n"
        "1,3,3,0,undecided,6\n");
  const std::string page = PageOf({"study"});
  EXPECT_EQ(Figures(page)[0]["data"][0]["marker"]["symbol"],
            json::parse(R"(["circle", "circle-open-dot"])"));
  EXPECT_THAT(page, HasSubstr("2 points, 0 of them with saturated runs, 1 undecided."));
  EXPECT_THAT(page, HasSubstr("Points with a dot are undecided: 1 have runs too short to tell"));
}

TEST_F(ReportCommandTest, AStudySaysHowManyRunsAnIntervalWants) {
  WriteStudy();
  EXPECT_THAT(PageOf({"study"}), Not(HasSubstr("runs)")));
  Write("study/summary.csv",
        "point,workload.arrivals.rate,n,errors,saturated,p99_ttft_ms,p99_ttft_ms_low,"
        "p99_ttft_ms_high,p99_ttft_ms_runs_wanted\n0,1,3,0,no,5,,,20\n1,3,3,0,no,6,5,7,\n");
  const std::string page = PageOf({"study"});
  EXPECT_THAT(page, HasSubstr(">5 (20 runs)</td>"));
  EXPECT_THAT(page, HasSubstr(">6 [5, 7]</td>"));
  EXPECT_THAT(page, HasSubstr("(20 runs): replications that an interval of the metric wants."));
}

TEST_F(ReportCommandTest, AStudyShowsDifferencesOfItsPrimaryMetrics) {
  WriteStudy();
  const std::string header =
      "point,baseline,policy.vllm_v1.max_num_seqs,workload.arrivals.rate,metric,role,n,difference,"
      "difference_low,difference_high,ratio,ratio_low,ratio_high,significant,note\n";
  Write("study/differences.csv",
        header +
            "2,0,16,1,mean_tpot_ms,primary,3,-4,-5,-3,0.8,0.75,0.85,yes,\n"
            "2,0,16,1,p90_tpot_ms,exploratory,3,-7,-8,-6,0.7,0.65,0.75,,\n");
  const std::string page = PageOf({"study"});
  EXPECT_THAT(page, HasSubstr(">-4 [-5, -3]</td><td class=\"n\">0.8 [0.75, 0.85]</td>"));
  EXPECT_THAT(page, Not(HasSubstr("p90_tpot_ms")));
  EXPECT_THAT(page, HasSubstr("All others are exploratory"));
  Write("study/differences.csv", "point,baseline,metric,difference\n");
  EXPECT_THAT(PageOf({"study"}), HasSubstr("An earlier version wrote differences.csv"));
}

TEST_F(ReportCommandTest, NamesOfRunsAreText) {
  (void)RunSmall("a<b>&c");
  const std::string page = PageOf({"a<b>&c"});
  EXPECT_THAT(page, HasSubstr("<h1>a&lt;b&gt;&amp;c</h1>"));
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
}

TEST_F(ReportCommandTest, RefusesWhatIsNoRunAndNoStudy) {
  std::filesystem::create_directory(scratch_.File("empty"));
  WriteStudy();
  (void)RunSmall("run");
  struct Case {
    std::vector<std::string> paths;
    const char* named;
  };
  for (const Case& bad :
       {Case{{"nowhere"}, "nowhere"}, Case{{"empty"}, "empty"}, Case{{"run", "study"}, "study"}}) {
    std::vector<std::string> arguments = bad.paths;
    arguments.insert(arguments.begin(), "report");
    const CommandOutcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << bad.named;
    EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(bad.named));
  }
  const CommandOutcome experiment = Run({"report", "small.textproto"});
  EXPECT_EQ(experiment.exit_code, 1);
  EXPECT_TRUE(experiment.wrote_one_line()) << experiment.err;
  EXPECT_THAT(experiment.err, HasSubstr("small.textproto:1: has no column prompt_tokens"));
}

TEST_F(ReportCommandTest, ADamagedTableIsNamed) {
  (void)RunSmall("run");
  Write("run/requests.csv", "request,arrival_s\n0,1,2\n");
  const CommandOutcome outcome = Run({"report", "run"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(outcome.wrote_one_line()) << outcome.err;
  EXPECT_THAT(outcome.err,
              HasSubstr("requests.csv:2: row: has 3 fields; allowed: 2, as the header"));
}

std::vector<std::string> CellsOf(const std::string& line) {
  CsvCells split;
  split.Split(line);
  return {split.cells().begin(), split.cells().end()};
}

// A table of a run without its column `left_out`; "": with all. In the first row, the cell of
// `changed` is `cell`.
std::string Altered(const std::string& table, const std::string& left_out,
                    const std::string& changed, const std::string& cell) {
  std::istringstream lines(table);
  std::vector<std::string> header;
  std::string altered;
  std::size_t row = 0;
  for (std::string line; std::getline(lines, line); ++row) {
    const std::vector<std::string> cells = CellsOf(line);
    if (row == 0) header = cells;
    std::vector<std::string> kept;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (header[i] == left_out) continue;
      kept.push_back(row == 1 && header[i] == changed ? cell : cells[i]);
    }
    altered += CsvRow(kept);
  }
  return altered;
}

// Whatever was cut from a table or written into it: a page, or one line that names the file.
TEST_F(ReportCommandTest, ATableWithoutAColumnOrWithAnOddCellIsShownOrNamed) {
  (void)RunSmall("run");
  for (const char* file : {"requests.csv", "steps.csv", "series.csv"}) {
    const std::string path = fmt::format("run/{}", file);
    const std::string table = ReadText(scratch_.File(path));
    const std::vector<std::string> header = CellsOf(table.substr(0, table.find('\n')));
    // Each column has one of the odd cells.
    constexpr std::array kOdd = {"", "nan", "inf", "-1", "1e308", "-1e308", "text", "\xff"};
    for (std::size_t i = 0; i < header.size(); ++i) {
      const std::string& column = header[i];
      for (const std::string& altered :
           {Altered(table, column, "", ""), Altered(table, "", column, kOdd[i % kOdd.size()])}) {
        Write(path, altered);
        const std::optional<std::string> refusal = RefusalOf("run");
        if (!refusal.has_value()) continue;
        EXPECT_THAT(*refusal, HasSubstr(path)) << column;
        EXPECT_THAT(*refusal, Not(HasSubstr("\n"))) << column;
      }
    }
    Write(path, table);
  }
}

TEST_F(ReportCommandTest, ATableWithoutTimesOfArrivalIsNamed) {
  (void)RunSmall("run");
  const std::string table = ReadText(scratch_.File("run/requests.csv"));
  Write("run/requests.csv", Altered(table, "arrival_s", "", ""));
  EXPECT_THAT(Run({"report", "run"}).err, HasSubstr("requests.csv: has no column arrival_s"));
  Write("run/requests.csv", Altered(table, "", "arrival_s", "-1"));
  EXPECT_THAT(
      Run({"report", "run"}).err,
      HasSubstr("requests.csv:2: arrival_s: found \"-1\"; allowed: a number of at least 0"));
}

TEST_F(ReportCommandTest, ASummaryWhoseNumberIsATextIsNamed) {
  json summary = RunSmall("run");
  // Each entry is one of the odd values.
  const json odd = {"text", true, json::array(), json::object()};
  std::size_t next = 0;
  for (const auto& [name, value] : summary.items()) {
    json altered = summary;
    altered[name] = odd[next++ % odd.size()];
    if (value.is_string() && altered[name].is_string()) continue;
    Write("run/summary.json", altered.dump());
    EXPECT_THAT(RefusalOf("run").value_or("shown"),
                HasSubstr(fmt::format("summary.json: {} is ", name)));
  }
}

TEST_F(ReportCommandTest, AFileThatNeverEndsIsRefused) {
  (void)RunSmall("run");
  for (const char* file : {"requests.csv", "summary.json", "config.resolved.textproto"}) {
    const std::filesystem::path path = scratch_.File(fmt::format("run/{}", file));
    const std::string text = ReadText(path);
    std::filesystem::remove(path);
    std::filesystem::create_symlink("/dev/zero", path);
    const CommandOutcome outcome = Run({"report", "run"});
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_THAT(outcome.err, HasSubstr(fmt::format("{}: is no regular file", file)));
    std::filesystem::remove(path);
    Write(fmt::format("run/{}", file), text);
  }
}

}  // namespace
}  // namespace twin::apps
