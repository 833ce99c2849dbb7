// Writes the packets of a Perfetto trace, one call per packet.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "core/step_parts.h"
#include "core/time.h"
#include "run/files/message_output.h"

namespace twin::proto::perfetto {
class TrackDescriptor;
class TrackEvent;
class TracePacket;
}  // namespace twin::proto::perfetto

namespace twin {

namespace perfetto {

// Kinds of slices, notes and categories; the lists hold their names, in the same order. The last
// eight slices are the parts of a step, in the order of StepPart.
enum class Slice : std::uint8_t {
  kPrefill,
  kDecode,
  kMixed,
  kSwap,
  kIdle,
  kRequest,
  kQueued,
  kPreempted,
  kSwapped,
  kRejected,
  kCancelled,
  kFirstPart,
};
inline constexpr std::array kSliceNames = {
    "prefill",   "decode",        "mixed",    "swap",      "idle",     "request", "queued",
    "preempted", "swapped",       "rejected", "cancelled", "schedule", "build",   "gemm",
    "attention", "communication", "other",    "sampling",  "delivery", "clocks"};

constexpr Slice SliceOf(StepPart part) {
  return static_cast<Slice>(static_cast<std::uint8_t>(Slice::kFirstPart) +
                            static_cast<std::uint8_t>(part));
}

enum class Note : std::uint8_t {
  kStep,
  kTokens,
  kPrefillTokens,
  kDecodes,
  kFreeBlocks,
  kRequest,
  kPromptTokens,
  kMaxOutputTokens,
  kTenant,
};
inline constexpr std::array kNoteNames = {
    "step",    "tokens",        "prefill_tokens",    "decodes", "free_blocks",
    "request", "prompt_tokens", "max_output_tokens", "tenant"};

enum class Category : std::uint8_t { kStep, kRequest, kPart };
inline constexpr std::array kCategoryNames = {"step", "request", "part"};

// Numbers of tracks, unique within a process.

inline constexpr std::uint64_t kProcessTrack = 1;
inline constexpr std::uint64_t kRequestsTrack = 2;
inline constexpr std::uint64_t kCounterTracks = 10;
inline constexpr std::uint64_t kStepTracks = 1'000;
inline constexpr std::uint64_t kPartTracks = 10'000;
inline constexpr std::uint64_t kDeliveryTracks = 20'000;
inline constexpr std::uint64_t kRequestTracks = 1'000'000;

using Notes = std::initializer_list<std::pair<Note, std::int64_t>>;

}  // namespace perfetto

// Streams the packets of one process into a file; a trace may hold several processes, one after the
// other. Slices of one track must nest. Tracks are named by their numbers within the process.
class PerfettoPackets {
 public:
  // Borrows the file. `process` counts from 1 and is unique in the file: it is the process's pid.
  PerfettoPackets(MessageOutput& file, std::uint32_t process);
  ~PerfettoPackets();

  void DescribeProcess(const std::string& name);
  // Tracks of one parent are shown in the order of their ranks.
  void DescribeTrack(std::uint64_t track, std::uint64_t parent, const std::string& name,
                     std::int32_t rank);
  void DescribeCounter(std::uint64_t track, std::uint64_t parent, const std::string& name,
                       const std::string& unit, std::int32_t rank);

  void BeginSlice(std::uint64_t track, TimePoint time, perfetto::Slice slice,
                  perfetto::Category category, perfetto::Notes notes = {});
  // A slice with a name of its own.
  void BeginSlice(std::uint64_t track, TimePoint time, const std::string& name,
                  perfetto::Category category, perfetto::Notes notes = {});
  void EndSlice(std::uint64_t track, TimePoint time);
  void Count(std::uint64_t track, TimePoint time, double value);

 private:
  proto::perfetto::TracePacket& Begin();
  proto::perfetto::TrackDescriptor& Describe(std::uint64_t track, std::uint64_t parent,
                                             const std::string& name, std::int32_t rank);
  proto::perfetto::TrackEvent& Event(std::uint64_t track, TimePoint time, int type);
  void AddNotes(proto::perfetto::TrackEvent& event, perfetto::Notes notes);
  [[nodiscard]] std::uint64_t Uuid(std::uint64_t track) const;
  void WriteNames();
  void Write();

  MessageOutput& file_;
  std::uint32_t process_;
  std::unique_ptr<proto::perfetto::TracePacket> packet_;
  std::string bytes_;
};

}  // namespace twin
