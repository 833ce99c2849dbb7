#include "proto/record_file.h"

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
#include "proto/record.pb.h"
#include "proto/record_codec.h"
#include "record/plan_digest.h"

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
  Frames(const std::filesystem::path& path, Compression compression) : file_(path, compression) {}

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
                           Compression compression)
    : frames_(std::make_unique<Frames>(path, compression)) {
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

void RecordWriter::Finish() {
  proto::RecordEnd& end = *frames_->Begin().mutable_end();
  end.set_digest(frames_->digest.value());
  end.set_instants(frames_->instants);
  end.set_plans(frames_->digest.plans());
  frames_->Write();
  frames_->file().Commit();
}

class RecordReader::Frames {
 public:
  explicit Frames(const std::filesystem::path& path) : path_(path.string()) {
    const int descriptor = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    const bool regular =
        descriptor >= 0 && ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
    if (!regular) {
      if (descriptor >= 0) ::close(descriptor);
      throw InputError(InputError::Kind::kData, path_, "cannot be read");
    }
    unsigned char magic[2] = {0, 0};
    const bool gzip = ::pread(descriptor, magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
    file_ = std::make_unique<io::FileInputStream>(descriptor);
    file_->SetCloseOnDelete(true);
    if (gzip) gzip_ = std::make_unique<io::GzipInputStream>(file_.get());
    ReadHeader();
  }

  [[noreturn]] void Refuse(const std::string& what) const {
    throw InputError(InputError::Kind::kData, path_,
                     "frame " + std::to_string(frames_) + ": " + what);
  }

  bool NextInstant(Instant& instant) {
    while (Peek().has_plan()) DecodePlan();
    while (Peek().has_transfer()) DecodeTransfer();
    if (Peek().has_end()) {
      CheckEnd();
      return false;
    }
    if (!Peek().has_instant()) Refuse("is neither an instant, a plan, a transfer nor the end");
    if (const char* wrong = instants_.Decode(Peek().instant(), instant)) Refuse(wrong);
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

 private:
  void ReadHeader() {
    if (!Peek().has_header()) Refuse("is not the header of a record");
    if (const char* wrong = Decode(Peek().header(), header)) Refuse(wrong);
    peeked_ = false;
  }

  const proto::Frame& Peek() {
    if (!peeked_) ReadFrame();
    return frame_;
  }

  void ReadFrame() {
    io::ZeroCopyInputStream* stream = file_.get();
    if (gzip_) stream = gzip_.get();
    io::CodedInputStream coded(stream);
    ++frames_;
    std::uint32_t size = 0;
    std::uint32_t checksum = 0;
    if (!coded.ReadVarint32(&size) || !coded.ReadLittleEndian32(&checksum)) {
      Refuse("the record is truncated: it has no end");
    }
    if (size > kFrameBytesMax) Refuse("is longer than a frame can be");
    if (!coded.ReadString(&bytes_, static_cast<int>(size))) {
      Refuse("the record is truncated: it has no end");
    }
    if (Checksum(bytes_) != checksum) Refuse("its checksum is wrong: the record is damaged");
    if (!frame_.ParseFromString(bytes_)) Refuse("is not a message of a record");
    peeked_ = true;
  }

  void DecodePlan() {
    if (counted_.instants == 0) Refuse("a plan before the first instant");
    if (const char* wrong = Decode(Peek().plan(), plan_)) Refuse(wrong);
    if (const char* wrong = instants_.Planned(plan_)) Refuse(wrong);
    digest_.OnPlan(kTimeZero, plan_);
    peeked_ = false;
  }

  void DecodeTransfer() {
    if (counted_.instants == 0) Refuse("a transfer before the first instant");
    if (const char* wrong = instants_.Decode(Peek().transfer(), transfer_)) Refuse(wrong);
    digest_.OnTransfer(kTimeZero, transfer_);
    peeked_ = false;
  }

  void CheckEnd() {
    const proto::RecordEnd& message = Peek().end();
    counted_.digest = digest_.value();
    counted_.plans = digest_.plans();
    if (counted_ != RecordEnd{message.digest(), message.instants(), message.plans()}) {
      Refuse("the end does not fit: frames are missing");
    }
    end = counted_;
    ended_ = true;
  }

  std::string path_;
  std::unique_ptr<io::FileInputStream> file_;
  std::unique_ptr<io::GzipInputStream> gzip_;  // null: not compressed
  std::uint64_t frames_ = 0;
  std::string bytes_;
  proto::Frame frame_;
  bool peeked_ = false;
  bool ended_ = false;
  InstantDecoder instants_;
  StepPlan plan_;
  KvTransfer transfer_;
  PlanDigest digest_;
  RecordEnd counted_;
};

RecordReader::RecordReader(const std::filesystem::path& path)
    : frames_(std::make_unique<Frames>(path)) {}

RecordReader::~RecordReader() = default;

const RecordHeader& RecordReader::header() const { return frames_->header; }

bool RecordReader::NextInstant(Instant& instant) { return frames_->NextInstant(instant); }

const StepPlan* RecordReader::NextPlan() { return frames_->NextPlan(); }

const KvTransfer* RecordReader::NextTransfer() { return frames_->NextTransfer(); }

const RecordEnd& RecordReader::end() const {
  CHECK(frames_->end.has_value());
  return *frames_->end;
}

}  // namespace twin
