// The complete record of a run on disk: enough to repeat its scheduling and to compute every
// metric.
//
// A file is a sequence of frames (record.proto), compressed with gzip or not. Each frame is its
// length as a varint, a 32-bit checksum of its bytes (little-endian), and its bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "run/files/message_output.h"
#include "run/record/record_source.h"
#include "run/record/run_observer.h"
#include "sched/engine_config.h"
#include "sched/policy/policy.h"

namespace twin {

// The configuration and engines that a run started from.
struct RecordHeader {
  std::string config;  // resolved, in text format
  std::uint64_t seed = 0;
  std::string version;  // of the program that wrote it
  std::string policy;   // PolicyTraits::name
  Delivery delivery = Delivery::kPerStep;
  EngineConfig engine;  // of every replica, or of the first group
  EngineGroups groups;  // of replicas that differ; else empty
};

struct RecordEnd {
  std::uint64_t digest = 0;  // PlanDigest over all plans and transfers
  std::uint64_t instants = 0;
  std::uint64_t plans = 0;
  // The record was written by a version whose digests differ: `digest` was computed anew.
  bool other_encoding = false;

  bool operator==(const RecordEnd&) const = default;
};

// A request that a service did not accept.
struct RefusedRequest {
  TimePoint time;
  std::int32_t prompt_tokens = 0;
  std::int32_t max_output_tokens = 0;
  std::int32_t priority = 0;
  std::uint32_t tenant = 0;
  std::uint64_t session = 0;
  bool draining = false;  // the service was ending; else it had too many requests

  bool operator==(const RefusedRequest&) const = default;
};

// Streams a run into a file. Memory does not grow with the run. The file exists only once Finish()
// has returned, or grows from the start. Throws InputError if it cannot be written.
class RecordWriter : public RunObserver {
 public:
  RecordWriter(const std::filesystem::path& path, const RecordHeader& header,
               Compression compression,
               OutputFile::Appearance appearance = OutputFile::Appearance::kWhenComplete);
  ~RecordWriter() override;

  // REQUIRES: events in the order of the alternatives of Event.
  void OnInstant(const Instant& instant) override;
  void OnPlan(TimePoint now, const StepPlan& plan) override;
  void OnTransfer(TimePoint now, const KvTransfer& transfer) override;

  // At any time before Finish().
  void OnRefused(const RefusedRequest& refused);

  // Hands everything to the operating system, so that it outlives this process. To be called when
  // everything of an instant has been written.
  void Flush();

  // Ends the record. REQUIRES: called once, after the run.
  void Finish();

 private:
  class Frames;
  std::unique_ptr<Frames> frames_;
};

// Reads a record from its beginning; memory does not grow with its length.
// Every function, the constructor included, throws InputError(kData), naming the file and the
// frame, if the file is truncated, damaged, or not a record. If a record is read to its end without
// an error, no frame is missing.
class RecordReader : public RecordSource {
 public:
  // How to treat a record without end, from a run that was killed or still goes on.
  enum class WithoutEnd : std::uint8_t {
    kRefuse,
    // Read the instants that are surely complete: all but the latest.
    kReadWhatIsThere,
  };
  explicit RecordReader(const std::filesystem::path& path,
                        WithoutEnd without_end = WithoutEnd::kRefuse);
  ~RecordReader() override;

  // Sets the listener of refused requests. NextInstant calls it for each refusal before the next
  // instant or the end.
  void ListenToRefusals(std::function<void(const RefusedRequest&)> listener);
  // False if the record has no end.
  [[nodiscard]] bool complete() const;

  [[nodiscard]] const RecordHeader& header() const;

  bool NextInstant(Instant& instant) override;
  const StepPlan* NextPlan() override;
  const KvTransfer* NextTransfer() override;

  // REQUIRES: NextInstant has returned false. For a record without end: sums over all that was
  // read.
  [[nodiscard]] const RecordEnd& end() const;

 private:
  class Frames;
  std::unique_ptr<Frames> frames_;
};

}  // namespace twin
