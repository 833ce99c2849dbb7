// The packets of a Perfetto trace, one call each.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "core/time.h"
#include "proto/message_output.h"

namespace twin::proto::perfetto {
class TrackDescriptor;
class TrackEvent;
class TracePacket;
}  // namespace twin::proto::perfetto

namespace twin {

namespace perfetto {

// What slices, notes and categories there are; the lists hold their names, in order.
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
};
inline constexpr std::array kSliceNames = {"prefill", "decode",   "mixed",    "swap",
                                           "idle",    "request",  "queued",   "preempted",
                                           "swapped", "rejected", "cancelled"};

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

enum class Category : std::uint8_t { kStep, kRequest };
inline constexpr std::array kCategoryNames = {"step", "request"};

inline constexpr std::uint64_t kProcessTrack = 1;
inline constexpr std::uint64_t kRequestsTrack = 2;
inline constexpr std::uint64_t kCounterTracks = 10;
inline constexpr std::uint64_t kStepTracks = 1'000;
inline constexpr std::uint64_t kRequestTracks = 1'000'000;

using Notes = std::initializer_list<std::pair<Note, std::int64_t>>;

}  // namespace perfetto

// Streams packets of one sequence into a file. Slices of one track must nest.
class PerfettoPackets {
 public:
  PerfettoPackets(const std::filesystem::path& path, Compression compression);
  ~PerfettoPackets();

  void DescribeProcess(std::uint64_t uuid, const std::string& name);
  // Tracks of one parent are shown in the order of their ranks.
  void DescribeTrack(std::uint64_t uuid, std::uint64_t parent, const std::string& name,
                     std::int32_t rank);
  void DescribeCounter(std::uint64_t uuid, std::uint64_t parent, const std::string& name,
                       const std::string& unit, std::int32_t rank);

  void BeginSlice(std::uint64_t track, TimePoint time, perfetto::Slice slice,
                  perfetto::Category category, perfetto::Notes notes = {});
  void EndSlice(std::uint64_t track, TimePoint time);
  void Count(std::uint64_t track, TimePoint time, double value);

  // The file is complete.
  void Commit() { file_.Commit(); }

 private:
  proto::perfetto::TracePacket& Begin();
  proto::perfetto::TrackDescriptor& Describe(std::uint64_t uuid, std::uint64_t parent,
                                             const std::string& name, std::int32_t rank);
  proto::perfetto::TrackEvent& Event(std::uint64_t track, TimePoint time, int type);
  void WriteNames();
  void Write();

  MessageOutput file_;
  std::unique_ptr<proto::perfetto::TracePacket> packet_;
  std::string bytes_;
};

}  // namespace twin
