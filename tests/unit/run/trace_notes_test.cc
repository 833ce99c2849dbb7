// What a run says of the trace that it read.
#include "run/trace_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/run/reports.h"
#include "tests/unit/traces/trace_samples.h"

namespace twin::run {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Reads the workload to its end.
Reports SaidOf(const std::string& text, std::int64_t requests, std::int32_t repeat = 1) {
  const ScratchDirectory folder("trace_notes");
  std::ofstream(folder.File("trace.csv")) << text;
  WorkloadConfig config;
  config.trace = TraceConfig{.path = folder.File("trace.csv"), .repeat = repeat};
  config.requests = requests;
  TraceReport report;
  const std::unique_ptr<ArrivalSource> source = MakeWorkload(config, 1, &report);
  std::int64_t arrived = 0;
  for (; source->Peek() != nullptr; source->Take()) ++arrived;
  Reports control;
  ReportTrace(config, report, arrived, control);
  return control;
}

const std::string kThreeRows =
    "send_us,in_tokens,out_tokens,status\n0,5,6,ok\n1,5,0,ok\n2,,,408\n3,7,8,ok\n4,9,9,ok\n";

TEST(TraceNotesTest, FewerRequestsThanAskedForAreWarnedOf) {
  EXPECT_THAT(SaidOf(kThreeRows, 100).warnings,
              ElementsAre("workload.requests is 100, but only 3 arrived: the trace ended before; "
                          "workload.trace.repeat reads it again"));
  EXPECT_THAT(SaidOf(kThreeRows, 3).warnings, IsEmpty());
  EXPECT_THAT(SaidOf(kThreeRows, 0).warnings, IsEmpty());
}

TEST(TraceNotesTest, SkippedRowsAreSaidInOneNote) {
  EXPECT_THAT(SaidOf(kThreeRows, 0).notes,
              ElementsAre(HasSubstr("trace.csv: 2 of 5 rows skipped: 1 failed, 1 without output")));
  // Once, although the trace is read twice.
  EXPECT_THAT(SaidOf(kThreeRows, 6, 2).notes, ElementsAre(HasSubstr("2 of 5 rows skipped")));
  EXPECT_THAT(SaidOf("send_us,in_tokens,out_tokens\n0,5,6\n", 0).notes, IsEmpty());
}

TEST(TraceNotesTest, AFileWithoutALastLineEndMayBeCut) {
  EXPECT_THAT(SaidOf("send_us,in_tokens,out_tokens\n0,5,6", 0).warnings,
              ElementsAre(HasSubstr("trace.csv: the last line has no end")));
}

}  // namespace
}  // namespace twin::run
