#include "run/files/record_file.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/gzip_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <optional>
#include <utility>

#include "core/check.h"
#include "core/input_error.h"
#include "run/files/record.pb.h"
#include "run/files/record_codec.h"
#include "run/record/plan_digest.h"

namespace twin {

namespace {

namespace io = google::protobuf::io;

constexpr std::uint32_t kFrameBytesMax = 1u << 28;

std::uint32_t Checksum(const std::string& bytes) {
  return static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

class RecordWriter::Frames {
 public:
  Frames(const std::filesystem::path& path, Compression compression,
         OutputFile::Appearance appearance)
      : file_(path, compression, appearance) {}

  // The frame to fill, empty.
  proto::Frame& Begin() {
    frame_.Clear();
    return frame_;
  }

  void Write() {
    frame_.SerializeToString(&bytes_);
    CHECK(bytes_.size() <= kFrameBytesMax);
    io::CodedOutputStream coded(&file_.stream());
    coded.WriteVarint32(static_cast<std::uint32_t>(bytes_.size()));
    coded.WriteLittleEndian32(Checksum(bytes_));
    coded.WriteRaw(bytes_.data(), static_cast<int>(bytes_.size()));
    if (coded.HadError()) file_.Fail();
  }

  MessageOutput& file() { return file_; }

  TimePoint latest = kTimeZero;
  PlanDigest digest;
  std::uint64_t instants = 0;

 private:
  MessageOutput file_;
  proto::Frame frame_;
  std::string bytes_;
};

RecordWriter::RecordWriter(const std::filesystem::path& path, const RecordHeader& header,
                           Compression compression, OutputFile::Appearance appearance)
    : frames_(std::make_unique<Frames>(path, compression, appearance)) {
  Encode(header, *frames_->Begin().mutable_header());
  frames_->Write();
}

RecordWriter::~RecordWriter() = default;

void RecordWriter::OnInstant(const Instant& instant) {
  Encode(instant, frames_->latest, *frames_->Begin().mutable_instant());
  frames_->Write();
  frames_->latest = instant.now;
  ++frames_->instants;
}

void RecordWriter::OnPlan(TimePoint now, const StepPlan& plan) {
  Encode(plan, *frames_->Begin().mutable_plan());
  frames_->Write();
  frames_->digest.OnPlan(now, plan);
}

void RecordWriter::OnTransfer(TimePoint now, const KvTransfer& transfer) {
  Encode(transfer, *frames_->Begin().mutable_transfer());
  frames_->Write();
  frames_->digest.OnTransfer(now, transfer);
}

void RecordWriter::OnRefused(const RefusedRequest& refused) {
  Encode(refused, *frames_->Begin().mutable_refusal());
  frames_->Write();
}

void RecordWriter::Flush() { frames_->file().Flush(); }

void RecordWriter::Finish() {
  proto::RecordEnd& end = *frames_->Begin().mutable_end();
  end.set_digest(frames_->digest.value());
  end.set_instants(frames_->instants);
  end.set_plans(frames_->digest.plans());
  end.set_plan_encoding(kPlanEncodingVersion);
  frames_->Write();
  frames_->file().Commit();
}

namespace {

// The frames of a file, one after the other.
class FrameStream {
 public:
  explicit FrameStream(const std::filesystem::path& path) : path_(path.string()) {
    // Opening a FIFO without a writer would wait.
    const int descriptor = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status {};
    const bool regular =
        descriptor >= 0 && ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
    if (!regular) {
      if (descriptor >= 0) ::close(descriptor);
      throw InputError(
          InputError::Kind::kData, path_,
          descriptor >= 0 ? "cannot be read: it is no regular file" : "cannot be read");
    }
    unsigned char magic[2] = {0, 0};
    const bool gzip = ::pread(descriptor, magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
    file_ = std::make_unique<io::FileInputStream>(descriptor);
    file_->SetCloseOnDelete(true);
    if (gzip) gzip_ = std::make_unique<io::GzipInputStream>(file_.get());
  }

  [[noreturn]] void Refuse(const std::string& what) const {
    throw InputError(InputError::Kind::kData, path_,
                     "frame " + std::to_string(frames_) + ": " + what);
  }

  // False if the file ends before the end of the next frame.
  bool Next(proto::Frame& frame) {
    io::ZeroCopyInputStream* stream = file_.get();
    if (gzip_) stream = gzip_.get();
    io::CodedInputStream coded(stream);
    ++frames_;
    std::uint32_t size = 0;
    std::uint32_t checksum = 0;
    if (!coded.ReadVarint32(&size) || !coded.ReadLittleEndian32(&checksum)) return false;
    if (size > kFrameBytesMax) Refuse("is longer than a frame can be");
    if (!coded.ReadString(&bytes_, static_cast<int>(size))) return false;
    if (Checksum(bytes_) != checksum) Refuse("its checksum is wrong: the record is damaged");
    if (!frame.ParseFromString(bytes_)) Refuse("is not a message of a record");
    return true;
  }

 private:
  std::string path_;
  std::unique_ptr<io::FileInputStream> file_;
  std::unique_ptr<io::GzipInputStream> gzip_;  // null: not compressed
  std::uint64_t frames_ = 0;
  std::string bytes_;
};

constexpr std::uint64_t kWholeRecord = ~std::uint64_t{0};

// Number of instants that a record without end surely holds completely; kWholeRecord if the record
// has an end.
std::uint64_t InstantsThere(const std::filesystem::path& path) {
  FrameStream frames(path);
  proto::Frame frame;
  std::uint64_t instants = 0;
  while (frames.Next(frame)) {
    if (frame.has_end()) return kWholeRecord;
    if (frame.has_instant()) ++instants;
  }
  return instants == 0 ? 0 : instants - 1;
}

}  // namespace

class RecordReader::Frames {
 public:
  Frames(const std::filesystem::path& path, WithoutEnd without_end)
      : frames_(path),
        instants_max_(without_end == WithoutEnd::kRefuse ? kWholeRecord : InstantsThere(path)) {
    ReadHeader();
  }

  bool NextInstant(Instant& instant) {
    if (ended_) return false;
    if (instants_max_ > 0) PassToNext();
    if (instants_max_ > 0 && Peek().has_end()) {
      CheckEnd();
      return false;
    }
    if (counted_.instants == instants_max_) {
      End();
      return false;
    }
    if (!Peek().has_instant())
      frames_.Refuse("is neither an instant, a plan, a transfer nor the end");
    if (const char* wrong = instants_.Decode(Peek().instant(), instant)) frames_.Refuse(wrong);
    ++counted_.instants;
    peeked_ = false;
    return true;
  }

  const StepPlan* NextPlan() {
    if (ended_ || !Peek().has_plan()) return nullptr;
    DecodePlan();
    return &plan_;
  }

  const KvTransfer* NextTransfer() {
    if (ended_ || !Peek().has_transfer()) return nullptr;
    DecodeTransfer();
    return &transfer_;
  }

  RecordHeader header;
  std::optional<RecordEnd> end;
  std::function<void(const RefusedRequest&)> listener;
  [[nodiscard]] bool complete() const { return instants_max_ == kWholeRecord; }

 private:
  void ReadHeader() {
    if (!Peek().has_header()) frames_.Refuse("is not the header of a record");
    if (const char* wrong = Decode(Peek().header(), header)) frames_.Refuse(wrong);
    peeked_ = false;
  }

  const proto::Frame& Peek() {
    if (!peeked_) ReadFrame();
    return frame_;
  }

  void ReadFrame() {
    if (!frames_.Next(frame_)) frames_.Refuse("the record is truncated: it has no end");
    peeked_ = true;
  }

  // Skips the rest of the latest instant.
  void PassToNext() {
    while (Peek().has_plan()) DecodePlan();
    while (Peek().has_transfer()) DecodeTransfer();
    while (Peek().has_refusal()) {
      RefusedRequest refused;
      if (const char* wrong = Decode(Peek().refusal(), refused)) frames_.Refuse(wrong);
      if (listener) listener(refused);
      peeked_ = false;
    }
  }

  void DecodePlan() {
    if (counted_.instants == 0) frames_.Refuse("a plan before the first instant");
    if (const char* wrong = Decode(Peek().plan(), plan_)) frames_.Refuse(wrong);
    if (const char* wrong = instants_.Planned(plan_)) frames_.Refuse(wrong);
    digest_.OnPlan(kTimeZero, plan_);
    peeked_ = false;
  }

  void DecodeTransfer() {
    if (counted_.instants == 0) frames_.Refuse("a transfer before the first instant");
    if (const char* wrong = instants_.Decode(Peek().transfer(), transfer_)) frames_.Refuse(wrong);
    digest_.OnTransfer(kTimeZero, transfer_);
    peeked_ = false;
  }

  void CheckEnd() {
    const proto::RecordEnd& message = Peek().end();
    End();
    if (counted_.instants != message.instants() || counted_.plans != message.plans()) {
      frames_.Refuse("the end does not fit: frames are missing");
    }
    end->other_encoding = message.plan_encoding() != kPlanEncodingVersion;
    if (!end->other_encoding && counted_.digest != message.digest()) {
      frames_.Refuse("the digest is not that of the plans: the file was changed");
    }
  }

  void End() {
    counted_.digest = digest_.value();
    counted_.plans = digest_.plans();
    end = counted_;
    ended_ = true;
  }

  FrameStream frames_;
  const std::uint64_t instants_max_;
  proto::Frame frame_;
  bool peeked_ = false;
  bool ended_ = false;
  InstantDecoder instants_;
  StepPlan plan_;
  KvTransfer transfer_;
  PlanDigest digest_;
  RecordEnd counted_;
};

RecordReader::RecordReader(const std::filesystem::path& path, WithoutEnd without_end)
    : frames_(std::make_unique<Frames>(path, without_end)) {}

RecordReader::~RecordReader() = default;

void RecordReader::ListenToRefusals(std::function<void(const RefusedRequest&)> listener) {
  frames_->listener = std::move(listener);
}

bool RecordReader::complete() const { return frames_->complete(); }

const RecordHeader& RecordReader::header() const { return frames_->header; }

bool RecordReader::NextInstant(Instant& instant) { return frames_->NextInstant(instant); }

const StepPlan* RecordReader::NextPlan() { return frames_->NextPlan(); }

const KvTransfer* RecordReader::NextTransfer() { return frames_->NextTransfer(); }

const RecordEnd& RecordReader::end() const {
  CHECK(frames_->end.has_value());
  return *frames_->end;
}

}  // namespace twin
