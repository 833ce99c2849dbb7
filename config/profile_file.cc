#include "config/profile_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "config/embedded_files.h"
#include "config/overlay.h"
#include "config/profile.pb.h"
#include "config/profile_binding.h"
#include "config/text_message.h"
#include "core/check.h"
#include "core/files/byte_source.h"
#include "core/input_error.h"

namespace twin {

namespace {

constexpr std::size_t kTextBytesMax = std::size_t{16} << 20;  // as ReadTextFile for plain files

// For parts whose only rules are the schema's.
template <class Part>
void Validate(const Part& /*part*/) {}

void Validate(const sim::StepProfile& steps) {
  for (const sim::RecordedModel& recorded : steps.models) Validate(recorded);
}

template <class Message, class Part>
void ParsePart(std::string_view text, const std::string& source, Part& part) {
  Message message;
  ParseText(text, {source}, message);
  CheckRules(message, source);
  FromMessage fields(message);
  Bind(fields, part);
  try {
    Validate(part);
  } catch (const InputError& error) {
    throw InputError(InputError::Kind::kUsage, source, error.what());
  }
}

template <class Message, class Part>
std::string PrintPart(const Part& part) {
  Message message;
  Part copy = part;
  ToMessage fields(message);
  Bind(fields, copy);
  return PrintText(message);
}

// The text in the bytes of a plain or compressed file.
std::string TextOf(std::string bytes, const std::string& source) {
  std::string text;
  try {
    const auto stream = Decompress(MemoryBytes(std::move(bytes)));
    std::array<char, 1 << 16> buffer{};
    while (const std::size_t count = stream->Read(buffer)) {
      text.append(buffer.data(), count);
      if (text.size() > kTextBytesMax) {
        throw InputError(InputError::Kind::kUsage, source, "holds more than 16 MiB of text");
      }
    }
  } catch (const ByteSourceError& error) {
    throw InputError(InputError::Kind::kUsage, source, error.what());
  }
  return text;
}

void Parse(std::string bytes, const std::string& source, ProfilePart part,
           sim::DeviceProfile& profile) {
  const std::string text = TextOf(std::move(bytes), source);
  switch (part) {
    case ProfilePart::kGemm:
      return ParsePart<proto::GemmProfile>(text, source, profile.gemm);
    case ProfilePart::kMoe:
      return ParsePart<proto::MoeProfile>(text, source, profile.moe);
    case ProfilePart::kAttention:
      return ParsePart<proto::AttentionProfile>(text, source, profile.attention);
    case ProfilePart::kCollectives:
      return ParsePart<proto::CollectiveProfile>(text, source, profile.collectives);
    case ProfilePart::kSteps:
      return ParsePart<proto::StepProfile>(text, source, profile.steps);
    case ProfilePart::kBoundary:
      return ParsePart<proto::BoundaryProfile>(text, source, profile.boundary);
  }
}

void CopyPart(ProfilePart part, const sim::DeviceProfile& from, sim::DeviceProfile& to) {
  switch (part) {
    case ProfilePart::kGemm:
      to.gemm = from.gemm;
      return;
    case ProfilePart::kMoe:
      to.moe = from.moe;
      return;
    case ProfilePart::kAttention:
      to.attention = from.attention;
      return;
    case ProfilePart::kCollectives:
      to.collectives = from.collectives;
      return;
    case ProfilePart::kSteps:
      to.steps = from.steps;
      return;
    case ProfilePart::kBoundary:
      to.boundary = from.boundary;
      return;
  }
}

// The file of a part, plain or compressed; empty if there is none.
std::filesystem::path FileOf(const std::filesystem::path& folder, ProfilePart part) {
  const std::filesystem::path plain = folder / FileName(part);
  const std::filesystem::path compressed = folder / (std::string(FileName(part)) + ".gz");
  if (!std::filesystem::exists(compressed)) return std::filesystem::exists(plain) ? plain : "";
  if (!std::filesystem::exists(plain)) return compressed;
  throw InputError(InputError::Kind::kUsage, compressed.string(),
                   fmt::format("lies beside {}; allowed: one of the two", plain.string()));
}

// Parses each part of each embedded profile once. Lock `mutex` around every use.
struct EmbeddedProfiles {
  std::mutex mutex;

  const sim::DeviceProfile& Parsed(const EmbeddedFile& file, ProfilePart part) {
    sim::DeviceProfile& profile = devices_[file.folder];
    bool& known = parsed_[{file.folder, part}];
    if (known) return profile;
    Parse(std::string(file.bytes),
          fmt::format("sim/devices/profiles/{}/{}", file.folder, file.name), part, profile);
    known = true;
    return profile;
  }

 private:
  std::map<std::string_view, sim::DeviceProfile> devices_;
  std::map<std::pair<std::string_view, ProfilePart>, bool> parsed_;
};

}  // namespace

std::string_view FileName(ProfilePart part) {
  switch (part) {
    case ProfilePart::kGemm:
      return "gemm.textproto";
    case ProfilePart::kMoe:
      return "moe.textproto";
    case ProfilePart::kAttention:
      return "attention.textproto";
    case ProfilePart::kCollectives:
      return "collectives.textproto";
    case ProfilePart::kSteps:
      return "steps.textproto";
    case ProfilePart::kBoundary:
      return "boundary.textproto";
  }
  CHECK(false);
  return "";
}

sim::DeviceProfile ProfilePreset(std::string_view hardware,
                                 std::initializer_list<ProfilePart> parts) {
  static EmbeddedProfiles embedded;
  const std::lock_guard lock(embedded.mutex);
  sim::DeviceProfile profile;
  for (const EmbeddedFile& file : ProfileTexts()) {
    if (file.folder != hardware) continue;
    for (const ProfilePart part : parts) {
      if (!file.name.starts_with(FileName(part))) continue;
      CopyPart(part, embedded.Parsed(file, part), profile);
    }
  }
  return profile;
}

std::span<const std::string_view> ProfilePresetNames() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const EmbeddedFile& file : ProfileTexts()) all.push_back(file.folder);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }();
  return names;
}

sim::DeviceProfile ReadProfileFolder(const std::filesystem::path& folder,
                                     std::initializer_list<ProfilePart> parts) {
  sim::DeviceProfile profile;
  bool any = false;
  for (const ProfilePart part : kAllProfileParts) {
    const std::filesystem::path file = FileOf(folder, part);
    if (file.empty()) continue;
    any = true;
    if (std::ranges::find(parts, part) == parts.end()) continue;
    Parse(ReadTextFile(file), file.string(), part, profile);
  }
  if (!any) {
    std::vector<std::string_view> names;
    for (const ProfilePart part : kAllProfileParts) names.push_back(FileName(part));
    throw InputError(InputError::Kind::kUsage, folder.string(),
                     fmt::format("is no folder with a profile; allowed: a folder with one or more "
                                 "of {}",
                                 fmt::join(names, ", ")));
  }
  return profile;
}

std::string WriteProfilePart(const sim::DeviceProfile& profile, ProfilePart part) {
  switch (part) {
    case ProfilePart::kGemm:
      return PrintPart<proto::GemmProfile>(profile.gemm);
    case ProfilePart::kMoe:
      return PrintPart<proto::MoeProfile>(profile.moe);
    case ProfilePart::kAttention:
      return PrintPart<proto::AttentionProfile>(profile.attention);
    case ProfilePart::kCollectives:
      return PrintPart<proto::CollectiveProfile>(profile.collectives);
    case ProfilePart::kSteps:
      return PrintPart<proto::StepProfile>(profile.steps);
    case ProfilePart::kBoundary:
      return PrintPart<proto::BoundaryProfile>(profile.boundary);
  }
  CHECK(false);
  return "";
}

}  // namespace twin
