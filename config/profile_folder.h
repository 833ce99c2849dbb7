// Profiles of devices, by the name of the device or from a folder.
//
// A profile is a folder with up to seven files, gemm.textproto, moe.textproto, attention.textproto,
// collectives.textproto, operations.textproto (latent, sparse and linear attention, mixtures by
// library), steps.textproto and boundary.textproto, plain or gzip (.textproto.gz). A
// missing file leaves its part of the profile empty.
// The folders of sim/devices/profiles/ are embedded at build time as serialized messages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "sim/devices/operations/device_profile.h"

namespace twin {

enum class ProfilePart : std::uint8_t {
  kGemm,
  kMoe,
  kAttention,
  kCollectives,
  kSteps,
  kBoundary,
  kOperations
};

inline constexpr std::initializer_list<ProfilePart> kAllProfileParts = {
    ProfilePart::kGemm,  ProfilePart::kMoe,      ProfilePart::kAttention, ProfilePart::kCollectives,
    ProfilePart::kSteps, ProfilePart::kBoundary, ProfilePart::kOperations};

// The parts `parts` of the profile sim/devices/profiles/HARDWARE. All other parts are empty, as are
// all parts of a device without profile; b300 and gb300 take the measurements of b200 and gb200
// but for steps, and rtx-pro-6000-server takes operations.textproto of l40s. `hardware` is the name
// of a preset or any other data sheet. Takes about a millisecond.
sim::DeviceProfile ProfilePreset(std::string_view hardware,
                                 std::initializer_list<ProfilePart> parts = kAllProfileParts);

// The names of all devices with an embedded profile, sorted.
std::span<const std::string_view> ProfilePresetNames();

// Reads a folder. Throws InputError(kUsage) if it is none or has none of the seven files, if it has
// one both plain and compressed, and with file, position and field if a file is not a message of
// its kind.
sim::DeviceProfile ReadProfileFolder(const std::filesystem::path& folder,
                                     std::initializer_list<ProfilePart> parts = kAllProfileParts);

// The content of one file of such a folder, without comments; reading it gives an equal part.
std::string WriteProfilePart(const sim::DeviceProfile& profile, ProfilePart part);

// The name of the file of a part, such as "gemm.textproto"; compressed, ".gz" follows.
std::string_view FileName(ProfilePart part);

}  // namespace twin
