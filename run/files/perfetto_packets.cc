#include "run/files/perfetto_packets.h"

#include <google/protobuf/io/coded_stream.h>

#include "run/files/perfetto_trace.pb.h"

namespace twin {

namespace {

namespace pb = proto::perfetto;
using namespace perfetto;  // NOLINT(google-build-using-namespace): names of the format

constexpr std::uint32_t kNamesStart = 1;
constexpr std::uint32_t kNamesUsed = 2;

// The iid of an interned name is its position + 1.
template <class Enum>
std::uint64_t Iid(Enum value) {
  return static_cast<std::uint64_t>(value) + 1;
}

void Name(pb::InternedName& name, std::size_t position, const char* text) {
  name.set_iid(position + 1);
  name.set_name(text);
}

}  // namespace

PerfettoPackets::PerfettoPackets(MessageOutput& file, std::uint32_t process)
    : file_(file), process_(process), packet_(std::make_unique<pb::TracePacket>()) {
  WriteNames();
}

PerfettoPackets::~PerfettoPackets() = default;

void PerfettoPackets::WriteNames() {
  pb::TracePacket& packet = Begin();
  packet.set_sequence_flags(kNamesStart);
  pb::InternedNames& names = *packet.mutable_interned_data();
  for (std::size_t i = 0; i < kSliceNames.size(); ++i) {
    Name(*names.add_event_names(), i, kSliceNames[i]);
  }
  for (std::size_t i = 0; i < kNoteNames.size(); ++i) {
    Name(*names.add_debug_annotation_names(), i, kNoteNames[i]);
  }
  for (std::size_t i = 0; i < kCategoryNames.size(); ++i) {
    Name(*names.add_event_categories(), i, kCategoryNames[i]);
  }
  Write();
}

// UUIDs are unique in the whole trace.
std::uint64_t PerfettoPackets::Uuid(std::uint64_t track) const {
  return (std::uint64_t{process_ - 1} << 40) + track;
}

void PerfettoPackets::DescribeProcess(const std::string& name) {
  pb::TrackDescriptor& track = *Begin().mutable_track_descriptor();
  track.set_uuid(Uuid(kProcessTrack));
  track.mutable_process()->set_pid(static_cast<std::int32_t>(process_));
  track.mutable_process()->set_process_name(name);
  Write();
}

void PerfettoPackets::DescribeTrack(std::uint64_t track, std::uint64_t parent,
                                    const std::string& name, std::int32_t rank) {
  Describe(track, parent, name, rank);
  Write();
}

void PerfettoPackets::DescribeCounter(std::uint64_t track, std::uint64_t parent,
                                      const std::string& name, const std::string& unit,
                                      std::int32_t rank) {
  Describe(track, parent, name, rank).mutable_counter()->set_unit_name(unit);
  Write();
}

void PerfettoPackets::BeginSlice(std::uint64_t track, TimePoint time, Slice slice,
                                 Category category, Notes notes) {
  pb::TrackEvent& event = Event(track, time, pb::TrackEvent::TYPE_SLICE_BEGIN);
  event.set_name_iid(Iid(slice));
  event.add_category_iids(Iid(category));
  AddNotes(event, notes);
  Write();
}

void PerfettoPackets::BeginSlice(std::uint64_t track, TimePoint time, const std::string& name,
                                 Category category, Notes notes) {
  pb::TrackEvent& event = Event(track, time, pb::TrackEvent::TYPE_SLICE_BEGIN);
  event.set_name(name);
  event.add_category_iids(Iid(category));
  AddNotes(event, notes);
  Write();
}

void PerfettoPackets::AddNotes(pb::TrackEvent& event, Notes notes) {
  for (const auto& [note, value] : notes) {
    pb::DebugAnnotation& annotation = *event.add_debug_annotations();
    annotation.set_name_iid(Iid(note));
    annotation.set_int_value(value);
  }
}

void PerfettoPackets::EndSlice(std::uint64_t track, TimePoint time) {
  Event(track, time, pb::TrackEvent::TYPE_SLICE_END);
  Write();
}

void PerfettoPackets::Count(std::uint64_t track, TimePoint time, double value) {
  Event(track, time, pb::TrackEvent::TYPE_COUNTER).set_double_counter_value(value);
  Write();
}

pb::TracePacket& PerfettoPackets::Begin() {
  packet_->Clear();
  packet_->set_trusted_packet_sequence_id(process_);
  return *packet_;
}

pb::TrackDescriptor& PerfettoPackets::Describe(std::uint64_t track, std::uint64_t parent,
                                               const std::string& name, std::int32_t rank) {
  pb::TrackDescriptor& descriptor = *Begin().mutable_track_descriptor();
  descriptor.set_uuid(Uuid(track));
  descriptor.set_parent_uuid(Uuid(parent));
  descriptor.set_name(name);
  descriptor.set_sibling_order_rank(rank);
  return descriptor;
}

pb::TrackEvent& PerfettoPackets::Event(std::uint64_t track, TimePoint time, int type) {
  pb::TracePacket& packet = Begin();
  packet.set_timestamp(static_cast<std::uint64_t>(Nanoseconds(time)));
  packet.set_sequence_flags(kNamesUsed);
  pb::TrackEvent& event = *packet.mutable_track_event();
  event.set_type(static_cast<pb::TrackEvent::Type>(type));
  event.set_track_uuid(Uuid(track));
  return event;
}

void PerfettoPackets::Write() {
  constexpr std::uint32_t kPacketTag = (1u << 3) | 2u;  // Trace.packet, length-delimited
  packet_->SerializeToString(&bytes_);
  google::protobuf::io::CodedOutputStream coded(&file_.stream());
  coded.WriteTag(kPacketTag);
  coded.WriteVarint32(static_cast<std::uint32_t>(bytes_.size()));
  coded.WriteRaw(bytes_.data(), static_cast<int>(bytes_.size()));
  if (coded.HadError()) file_.Fail();
}

}  // namespace twin
