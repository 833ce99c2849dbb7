// Measurements of one model on one machine: a text file that grows while they are made.
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

namespace twin::lab {

// What has to be equal for measurements to stand in one file.
struct ProfileHeader {
  std::string machine;
  std::string instruction_set;
  std::int32_t threads = 0;
  std::string commit;
  std::int32_t block_size = 0;
  std::int32_t rounds = 0;
  ModelSpec model;  // weights and KV cache in the formats that were measured
  std::vector<std::uint32_t> decode_buckets = {};  // of the device; not in the file if empty
  exec::ProfileLimits limits;
};

// One measurement of one round; times in microseconds.
struct ProfileRow {
  std::string kind;  // operation, step or host
  std::string name;
  std::int32_t round = 0;
  std::int64_t size = 0;   // of operations: tokens, rows or blocks; of the host: requests
  StepTotals totals = {};  // of attention, steps and the host
  std::int64_t samples = 0;
  double median_us = 0;
  double p10_us = 0;
  double p90_us = 0;
  // Of steps and the host: means over the middle 80 % of the repeats, by their whole times.
  std::array<double, kStepPartCount> parts_us{};

  // What is measured, whatever the round.
  [[nodiscard]] std::string key() const;
};

struct Profile {
  ProfileHeader header;
  std::vector<ProfileRow> rows;
};

// A row without the end of its line, as an interrupted writer leaves it behind.
enum class UnfinishedRow : std::uint8_t { kRefused, kLeftOut };

// CSV behind a header of `# key: value` lines. Throws InputError (data): file, line, field, what is
// wrong, what is allowed.
Profile ReadProfile(const std::filesystem::path& path,
                    UnfinishedRow unfinished = UnfinishedRow::kRefused);

// Appends to a file that ReadProfile accepts, in the place of an unfinished row, or begins one.
class ProfileWriter {
 public:
  // Throws std::system_error naming the file.
  ProfileWriter(const std::filesystem::path& path, const ProfileHeader& header, bool begins);

  // Whole lines, at once: what is interrupted keeps what it has. Throws std::system_error.
  void Add(const std::vector<ProfileRow>& rows);

 private:
  void Write(const std::string& text);

  std::filesystem::path path_;
  std::ofstream file_;
};

// Throws InputError (usage) naming the file and the first thing that is not as in `header`, whose
// limits count only in whether they are coarse.
void RequireSameHeader(const std::filesystem::path& path, const ProfileHeader& in_file,
                       const ProfileHeader& header);

}  // namespace twin::lab
