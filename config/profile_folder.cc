#include "config/profile_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "config/embedded_files.h"
#include "config/overlay.h"
#include "config/profile.bind.h"
#include "config/profile.pb.h"
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

// Calls `visit<Message>(member)` with the message of a part and its member of DeviceProfile.
template <class Visit>
auto WithPart(ProfilePart part, const Visit& visit) {
  switch (part) {
    case ProfilePart::kGemm:
      return visit.template operator()<proto::GemmProfile>(&sim::DeviceProfile::gemm);
    case ProfilePart::kMoe:
      return visit.template operator()<proto::MoeProfile>(&sim::DeviceProfile::moe);
    case ProfilePart::kAttention:
      return visit.template operator()<proto::AttentionProfile>(&sim::DeviceProfile::attention);
    case ProfilePart::kCollectives:
      return visit.template operator()<proto::CollectiveProfile>(&sim::DeviceProfile::collectives);
    case ProfilePart::kSteps:
      return visit.template operator()<proto::StepProfile>(&sim::DeviceProfile::steps);
    case ProfilePart::kOperations:
      return visit.template operator()<proto::OperationProfile>(&sim::DeviceProfile::operations);
    case ProfilePart::kBoundary:
      break;
  }
  CHECK(part == ProfilePart::kBoundary);
  return visit.template operator()<proto::BoundaryProfile>(&sim::DeviceProfile::boundary);
}

template <class Part>
void BindPart(const google::protobuf::Message& message, Part& part) {
  FromMessage fields(message);
  Bind(fields, part);
}

template <class Message, class Part>
void ParsePart(std::string_view text, const std::string& source, Part& part) {
  Message message;
  ParseText(text, {source}, message);
  CheckRules(message, source);
  BindPart(message, part);
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

// The file of a part, plain or compressed; empty if there is none.
std::filesystem::path FileOf(const std::filesystem::path& folder, ProfilePart part) {
  const std::filesystem::path plain = folder / FileName(part);
  const std::filesystem::path compressed = folder / (std::string(FileName(part)) + ".gz");
  if (!std::filesystem::exists(compressed)) return std::filesystem::exists(plain) ? plain : "";
  if (!std::filesystem::exists(plain)) return compressed;
  throw InputError(InputError::Kind::kUsage, compressed.string(),
                   fmt::format("lies beside {}; allowed: one of the two", plain.string()));
}

// The name of the file of a part without its extension.
std::string_view StemOf(ProfilePart part) {
  return FileName(part).substr(0, FileName(part).find('.'));
}

// Reads a part of an embedded profile; false if it has none.
bool ReadPart(std::string_view hardware, ProfilePart part, sim::DeviceProfile& profile) {
  for (const EmbeddedFile& file : ProfileMessages()) {
    if (file.folder != hardware || !file.name.starts_with(StemOf(part))) continue;
    WithPart(part, [&]<class Message>(auto member) {
      Message message;
      CHECK(message.ParseFromArray(file.bytes.data(), static_cast<int>(file.bytes.size())));
      BindPart(message, profile.*member);
    });
    return true;
  }
  return false;
}

// A device that nobody measured, or not all of it, and a measured one of the same or the nearest
// architecture. Tables hold ratios to closed forms, which the own data sheet scales.
struct Neighbour {
  std::string_view hardware;
  std::string_view measured;
  bool all = true;  // else operations.textproto alone
};
constexpr Neighbour kNeighbours[] = {
    {"b300", "b200"}, {"gb300", "gb200"}, {"rtx-pro-6000-server", "l40s", false}};

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
    case ProfilePart::kOperations:
      return "operations.textproto";
  }
  CHECK(false);
  return "";
}

sim::DeviceProfile ProfilePreset(std::string_view hardware,
                                 std::initializer_list<ProfilePart> parts) {
  sim::DeviceProfile profile;
  for (const ProfilePart part : parts) {
    if (ReadPart(hardware, part, profile)) continue;
    const Neighbour* const near = std::ranges::find(kNeighbours, hardware, &Neighbour::hardware);
    if (near == std::end(kNeighbours)) continue;
    const bool of_steps = part == ProfilePart::kSteps || part == ProfilePart::kBoundary;
    const bool borrowed = part == ProfilePart::kOperations || (near->all && !of_steps);
    if (borrowed) ReadPart(near->measured, part, profile);
  }
  return profile;
}

std::span<const std::string_view> ProfilePresetNames() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const EmbeddedFile& file : ProfileMessages()) all.push_back(file.folder);
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
    const std::string text = TextOf(ReadTextFile(file), file.string());
    WithPart(part, [&]<class Message>(auto member) {
      ParsePart<Message>(text, file.string(), profile.*member);
    });
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
  return WithPart(part,
                  [&]<class Message>(auto member) { return PrintPart<Message>(profile.*member); });
}

}  // namespace twin
