// The profile file: measurements of one model on one machine, appended while they are made.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/model_spec.h"
#include "core/step_parts.h"
#include "exec/profile/profile_grid.h"
#include "sched/step_plan.h"

namespace twin::run {

// The settings that must be equal for all measurements in one file.
struct ProfileHeader {
  std::string machine;
  std::string instruction_set;
  std::int32_t threads = 0;
  std::string commit;
  std::int32_t block_size = 0;
  std::int32_t rounds = 0;
  ModelSpec model;  // with the measured formats of weights and KV cache
  std::vector<std::uint32_t> decode_buckets = {};  // of the device; not written if empty
  exec::ProfileLimits limits;
};

// One measurement of one round; times in microseconds.
struct ProfileRow {
  std::string kind;  // operation, step or host
  std::string name;
  std::int32_t round = 0;
  std::int64_t size = 0;   // for operations: tokens, rows or blocks; for the host: requests
  StepTotals totals = {};  // for attention, steps and the host
  std::int64_t samples = 0;
  double median_us = 0;
  double p10_us = 0;
  double p90_us = 0;
  // For steps and the host: means over the repeats between the 10th and 90th percentile of whole
  // times.
  std::array<double, kStepPartCount> parts_us{};
  // The speed probe just before (exec/speed_probe.h); 0 = the device has none.
  double decode_probe_us = 0;
  double prefill_probe_us = 0;

  // Identifies the measurement; equal in all rounds.
  [[nodiscard]] std::string key() const;
};

struct Profile {
  ProfileHeader header;
  std::vector<ProfileRow> rows;
};

// How to treat a last row without its end of line, which an interrupted writer leaves.
enum class UnfinishedRow : std::uint8_t { kRefused, kLeftOut };

// Reads a header of `# key: value` lines and the CSV table after it. Throws InputError (data):
// file, line, field, what is wrong, what is allowed.
Profile ReadProfile(const std::filesystem::path& path,
                    UnfinishedRow unfinished = UnfinishedRow::kRefused);

// Appends to a file that ReadProfile accepts, replacing an unfinished row, or begins a new file.
class ProfileWriter {
 public:
  // Throws std::system_error naming the file.
  ProfileWriter(const std::filesystem::path& path, const ProfileHeader& header, bool begins);

  // Writes and flushes whole lines, so that an interruption loses nothing. Throws
  // std::system_error.
  void Add(const std::vector<ProfileRow>& rows);

 private:
  void Write(const std::string& text);

  std::filesystem::path path_;
  std::ofstream file_;
};

// Throws InputError (usage) naming the file and the first field that differs from `header`.
// Compares only `coarse` of the limits.
void RequireSameHeader(const std::filesystem::path& path, const ProfileHeader& in_file,
                       const ProfileHeader& header);

}  // namespace twin::run
