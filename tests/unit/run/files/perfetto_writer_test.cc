#include "run/files/perfetto_writer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "run/files/perfetto_trace.pb.h"
#include "tests/unit/run/files/random_run.h"

namespace twin {
namespace {

namespace fs = std::filesystem;
namespace pb = proto::perfetto;
using ::testing::ElementsAre;

constexpr std::int64_t kMs = 1'000'000;

TimePoint At(std::int64_t ms) { return TimePoint{Duration{ms * kMs}}; }

class PerfettoWriterTest : public ::testing::Test {
 protected:
  PerfettoWriterTest()
      : path_(fs::temp_directory_path() /
              ("perfetto_writer_test_" +
               std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) +
               std::to_string(::getpid()))) {}
  ~PerfettoWriterTest() override { fs::remove(path_); }

  pb::Trace Trace() const {
    std::ifstream file(path_, std::ios::binary);
    pb::Trace trace;
    EXPECT_TRUE(trace.ParseFromIstream(&file));
    return trace;
  }

  fs::path path_;
};

// Checks that the trace is one that Perfetto can show, and tells its slices and counters as text.
class Picture {
 public:
  explicit Picture(const pb::Trace& trace) {
    for (const pb::TracePacket& packet : trace.packet()) {
      auto& names = names_[packet.trusted_packet_sequence_id()];
      for (const auto& name : packet.interned_data().event_names()) {
        names[name.iid()] = name.name();
      }
      for (const auto& name : packet.interned_data().debug_annotation_names()) {
        note_names_[name.iid()] = name.name();
      }
      const pb::TrackDescriptor& track = packet.track_descriptor();
      if (packet.has_track_descriptor()) {
        EXPECT_TRUE(tracks_.emplace(track.uuid(), track.name()).second) << "described twice";
        if (track.has_process()) {
          processes.push_back(
              fmt::format("{} {}", track.process().pid(), track.process().process_name()));
        }
        EXPECT_TRUE(!track.has_parent_uuid() || tracks_.count(track.parent_uuid()) == 1);
      }
      if (packet.has_track_event()) Take(packet);
    }
    for (const auto& [track, open] : open_) EXPECT_TRUE(open.empty()) << track;
  }

  // "track: name begin..end" in ms, in the order of their ends.
  std::vector<std::string> slices;
  std::vector<std::string> counts;
  std::vector<std::string> notes;      // "slice note=value ...", in the order of their begins
  std::vector<std::string> processes;  // "pid name"
  std::int64_t slice_count = 0;

 private:
  void Take(const pb::TracePacket& packet) {
    const pb::TrackEvent& event = packet.track_event();
    ASSERT_TRUE(packet.has_timestamp());
    ASSERT_EQ(tracks_.count(event.track_uuid()), 1u) << "the track is described before";
    const std::uint64_t ns = packet.timestamp();
    auto& open = open_[event.track_uuid()];
    // Perfetto sorts by time, keeping the order of the file; then slices of a track must nest.
    EXPECT_GE(ns, latest_[event.track_uuid()]);
    latest_[event.track_uuid()] = ns;
    const std::string& track = tracks_[event.track_uuid()];
    if (event.type() == pb::TrackEvent::TYPE_SLICE_BEGIN) {
      const auto& names = names_[packet.trusted_packet_sequence_id()];
      EXPECT_EQ(names.count(event.name_iid()) + (event.has_name() ? 1 : 0), 1u);
      EXPECT_EQ(event.category_iids_size(), 1);
      open.emplace_back(event.has_name() ? event.name() : names.at(event.name_iid()), ns);
      std::string& text = notes.emplace_back(open.back().first);
      for (const auto& note : event.debug_annotations()) {
        text += fmt::format(" {}={}", note_names_.at(note.name_iid()), note.int_value());
      }
    } else if (event.type() == pb::TrackEvent::TYPE_SLICE_END) {
      ASSERT_FALSE(open.empty());
      const auto [name, begin] = open.back();
      open.pop_back();
      ++slice_count;
      slices.push_back(track + ": " + name + " " + std::to_string(begin / kMs) + ".." +
                       std::to_string(ns / kMs));
    } else {
      ASSERT_EQ(event.type(), pb::TrackEvent::TYPE_COUNTER);
      counts.push_back(track + " " + std::to_string(ns / kMs) + " " +
                       std::to_string(static_cast<int>(event.double_counter_value())));
    }
  }

  std::map<std::uint32_t, std::map<std::uint64_t, std::string>> names_;  // by sequence
  std::map<std::uint64_t, std::string> note_names_;
  std::map<std::uint64_t, std::string> tracks_;
  std::map<std::uint64_t, std::vector<std::pair<std::string, std::uint64_t>>> open_;
  std::map<std::uint64_t, std::uint64_t> latest_;
};

void Tell(RunObserver& observer, std::int64_t ms, const std::vector<Event>& events) {
  observer.OnInstant({At(ms), events});
}

Event Arrival(std::uint32_t id, std::int64_t ms) {
  Request request;
  request.id = RequestId{id};
  request.arrival = At(ms);
  request.prompt_tokens = 8;
  request.max_output_tokens = 4;
  return RequestArrived{request};
}

StepPlan Step(std::uint64_t id, std::vector<WorkItem> work) {
  StepPlan plan;
  plan.id = StepId{id};
  plan.work = std::move(work);
  for (const WorkItem& item : plan.work) {
    const bool decodes = item.phase == Phase::kDecode;
    (decodes ? plan.totals.decode_items : plan.totals.prefill_items) += 1;
    if (!decodes) plan.totals.prefill_tokens += item.tokens;
  }
  plan.free_blocks_before = plan.free_blocks = 75;
  plan.running = static_cast<std::int32_t>(plan.work.size());
  return plan;
}

// Request 0 arrives at 0 ms, is prefilled in [0, 10], decoded in [10, 15] together with the
// prefill of request 1, which arrived at 4 ms; request 0 is preempted by step 3, at 15 ms.
// Request 0 lies on the first lane, request 1 on the second.
TEST_F(PerfettoWriterTest, DrawsStepsRequestsAndCounters) {
  PerfettoWriter writer(path_, {.kv_blocks = 100});
  Tell(writer, 0, {Arrival(0, 0)});
  const StepPlan one = Step(1, {{RequestId{0}, 0, 8, 0, Phase::kPrefill, true}});
  writer.OnPlan(At(0), one);
  Tell(writer, 4, {Arrival(1, 4)});
  Tell(writer, 10, {StepFinished{StepId{1}, At(0), {}, {}}});
  const StepPlan two = Step(2, {{RequestId{0}, 8, 1, 0, Phase::kDecode, true},
                                {RequestId{1}, 0, 8, 0, Phase::kPrefill, true}});
  writer.OnPlan(At(10), two);
  Tell(writer, 15, {StepFinished{StepId{2}, At(11), {}, {}}});
  StepPlan three = Step(3, {{RequestId{1}, 8, 1, 0, Phase::kDecode, true}});
  three.preempted = {{RequestId{0}, Preemption::How::kRecompute}};
  writer.OnPlan(At(15), three);
  const std::vector<ItemOutcome> done = {{RequestId{1}, 1, FinishReason::kStop}};
  Tell(writer, 20, {StepFinished{StepId{3}, At(15), done, {}}});
  writer.Finish();

  const Picture picture(Trace());
  EXPECT_THAT(picture.slices,
              ElementsAre("lane 1: queued 0..0", "steps: prefill 0..10", "lane 1: prefill 0..10",
                          "lane 2: queued 4..10", "steps: mixed 11..15", "lane 1: decode 10..15",
                          "lane 2: prefill 10..15", "steps: decode 15..20", "lane 2: decode 15..20",
                          "lane 2: request 1 4..20", "lane 1: preempted 15..20",
                          "lane 1: request 0 0..20"));
}

TEST_F(PerfettoWriterTest, GivesEveryTraceAProperForm) {
  PerfettoWriter writer(path_, {.kv_blocks = 100, .request_lanes_max = 8});
  RandomRun(11).TellTo(writer, 400);
  writer.Finish();
  const Picture picture(Trace());
  EXPECT_GT(picture.slice_count, 300);
}

TEST_F(PerfettoWriterTest, PutsOverlappingStepsOnLanesOfTheirOwn) {
  PerfettoWriter writer(path_, {});
  Tell(writer, 0, {WakeUp{}});
  const StepPlan one = Step(1, {});
  const StepPlan two = Step(2, {});
  const StepPlan three = Step(3, {});
  writer.OnPlan(At(0), one);
  writer.OnPlan(At(0), two);
  writer.OnPlan(At(0), three);
  Tell(writer, 10, {StepFinished{StepId{1}, At(0), {}, {}}});
  Tell(writer, 14, {StepFinished{StepId{2}, At(5), {}, {}}});
  Tell(writer, 18, {StepFinished{StepId{3}, At(10), {}, {}}});
  writer.Finish();
  EXPECT_THAT(Picture(Trace()).slices,
              ElementsAre("steps: idle 0..10", "steps, lane 2: idle 5..14", "steps: idle 10..18"));
}

TEST_F(PerfettoWriterTest, CountsRequestsThatFindNoLane) {
  PerfettoWriter writer(path_, {.request_lanes_max = 1});
  Tell(writer, 0, {Arrival(0, 0), Arrival(1, 0)});
  Tell(writer, 3, {Arrival(2, 3)});
  writer.Finish();
  EXPECT_THAT(Picture(Trace()).counts,
              ElementsAre("requests that are not drawn 0 1", "requests that are not drawn 3 2"));
}

TEST_F(PerfettoWriterTest, WritesCountersWhenTheyChange) {
  PerfettoWriter writer(path_, {.kv_blocks = 100});
  Tell(writer, 0, {Arrival(0, 0)});
  const StepPlan one = Step(1, {{RequestId{0}, 0, 8, 0, Phase::kPrefill, true}});
  writer.OnPlan(At(0), one);
  Tell(writer, 10, {StepFinished{StepId{1}, At(0), {}, {}}});
  const StepPlan two = Step(2, {{RequestId{0}, 8, 1, 0, Phase::kDecode, true}});
  writer.OnPlan(At(10), two);
  Tell(writer, 12, {StepFinished{StepId{2}, At(10), {}, {}}});
  writer.Finish();
  EXPECT_THAT(Picture(Trace()).counts,
              ElementsAre("running requests 0 1", "waiting requests 0 0", "KV cache use 0 25",
                          "tokens in step 0 8", "tokens in step 10 1"));
}

// Asynchronous scheduling: step 2, the first decode, is planned at 0 ms too, while step 1, the
// prefill, runs until 10 ms. The prefill ends when it returns, not when its successor is planned.
TEST_F(PerfettoWriterTest, AsynchronousPrefillsEndWhenTheyReturn) {
  PerfettoWriter writer(path_, {});
  Tell(writer, 0, {Arrival(7, 0)});
  const StepPlan one = Step(1, {{RequestId{7}, 0, 4, 0, Phase::kPrefill, false}});
  const StepPlan two = Step(2, {{RequestId{7}, 4, 4, 0, Phase::kPrefill, true}});
  const StepPlan three = Step(3, {{RequestId{7}, 8, 1, 0, Phase::kDecode, true}});
  const StepPlan four = Step(4, {{RequestId{7}, 9, 1, 0, Phase::kDecode, true}});
  writer.OnPlan(At(0), one);
  writer.OnPlan(At(0), two);
  Tell(writer, 6, {StepFinished{StepId{1}, At(0), {}, {}}});
  writer.OnPlan(At(6), three);
  Tell(writer, 10, {StepFinished{StepId{2}, At(6), {}, {}}});
  writer.OnPlan(At(10), four);
  Tell(writer, 13, {StepFinished{StepId{3}, At(10), {}, {}}});
  const std::vector<ItemOutcome> done = {{RequestId{7}, 1, FinishReason::kStop}};
  Tell(writer, 15, {StepFinished{StepId{4}, At(13), done, {}}});
  writer.Finish();
  const Picture picture(Trace());
  EXPECT_THAT(picture.slices,
              ElementsAre("lane 1: queued 0..0", "steps: prefill 0..6", "steps: prefill 6..10",
                          "lane 1: prefill 0..10", "steps: decode 10..13", "steps: decode 13..15",
                          "lane 1: decode 10..15", "lane 1: request 7 0..15"));
  // Every slice of a request carries its number.
  EXPECT_THAT(
      picture.notes,
      ::testing::IsSupersetOf({"request 7 request=7 prompt_tokens=8 max_output_tokens=4 tenant=0",
                               "queued request=7", "prefill request=7", "decode request=7"}));
}

// Step 1: planned at 0, 1 ms of schedule, on the device in [1, 9] with 2 ms of GEMMs and 6 of
// attention, told at 10. Step 2 runs on the device meanwhile.
TEST_F(PerfettoWriterTest, DrawsThePartsOfEachStep) {
  PerfettoWriter writer(path_, {});
  const auto parts = [](std::int64_t schedule, std::int64_t gemm, std::int64_t attention,
                        std::int64_t delivery) {
    StepParts times;
    times[StepPart::kSchedule] = Duration{schedule * kMs};
    times[StepPart::kGemm] = Duration{gemm * kMs};
    times[StepPart::kAttention] = Duration{attention * kMs};
    times[StepPart::kDelivery] = Duration{delivery * kMs};
    return times;
  };
  writer.AddParts(StepId{1}, {At(0), At(1), At(9), At(12), parts(1, 2, 6, 3)});
  writer.AddParts(StepId{2}, {At(0), At(9), At(11), At(12), parts(0, 2, 0, 1)});
  writer.Finish();
  const Picture picture(Trace());
  EXPECT_THAT(picture.slices,
              ElementsAre("step parts: schedule 0..1", "step parts: gemm 1..3",
                          "step parts: attention 3..9", "delivery: delivery 9..12",
                          "step parts: gemm 9..11", "delivery, lane 2: delivery 11..12"));
  EXPECT_EQ(picture.notes.front(), "schedule step=1");
}

TEST_F(PerfettoWriterTest, PutsTwoRunsIntoOneFileAsTwoProcesses) {
  MessageOutput file(path_, Compression::kNone);
  const StepPlan one = Step(1, {{RequestId{0}, 0, 8, 0, Phase::kPrefill, true}});
  for (const std::uint32_t process : {1u, 2u}) {
    PerfettoOptions options;
    options.process = process;
    options.process_name = process == 1 ? "real" : "simulated";
    PerfettoWriter writer(file, options);
    Tell(writer, 0, {Arrival(0, 0)});
    writer.OnPlan(At(0), one);
    Tell(writer, process == 1 ? 12 : 10, {StepFinished{StepId{1}, At(0), {}, {}}});
    writer.Finish();
  }
  file.Commit();
  const Picture picture(Trace());
  EXPECT_THAT(picture.processes, ElementsAre("1 real", "2 simulated"));
  EXPECT_THAT(picture.slices,
              ::testing::IsSupersetOf({"steps: prefill 0..12", "steps: prefill 0..10"}));
}

}  // namespace
}  // namespace twin
