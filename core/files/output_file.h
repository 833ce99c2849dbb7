// An output file that appears under its name only when it is complete, or grows under it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace twin {

// Writes to PATH.partial.NUMBER beside the target, NUMBER being the process or the next free
// number, and renames that file to the target on Commit(). Such files of processes that were killed
// are removed first. A symbolic link is followed: its target is replaced and the link stays.
// Devices, FIFOs, sockets and the open files of the process (/dev/stdout) are written directly, and
// text written before a failure stays there. Files that other processes read while they grow, or
// after a crash, are written directly too (Appearance::kAtOnce).
//
// Throws InputError (data) naming the path if it cannot be opened for writing, or if writing fails.
class OutputFile {
 public:
  enum class Appearance : std::uint8_t { kWhenComplete, kAtOnce };

  explicit OutputFile(std::filesystem::path path,
                      Appearance appearance = Appearance::kWhenComplete);
  // Without Commit(), removes what was written, unless it was written directly.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Appends text, which is buffered.
  void Write(std::string_view text);

  // The open file, for writers with buffers of their own. Owned by this object.
  [[nodiscard]] int descriptor() const { return descriptor_; }

  // Writes what Write() still buffers, so that Commit() only closes and renames.
  void Flush();

  // Throws InputError (data): `error` is an errno, or 0 if the reason is unknown.
  [[noreturn]] void Fail(int error) const;

  // Flushes, closes and renames. REQUIRES: called once, nothing is written after it.
  void Commit();

 private:
  std::filesystem::path path_;     // as given
  std::filesystem::path target_;   // what Commit() renames to
  std::filesystem::path partial_;  // empty: written directly
  int descriptor_ = -1;
  std::string buffer_;
};

// Makes the folder, and its parents, if they are missing. Throws InputError (data).
void MakeOutputFolder(const std::filesystem::path& path);

// Throws as MakeOutputFolder() would, but makes no folder that lasts: for work that takes long
// before it writes. Tries to make a folder in the nearest parent that exists.
void RequireOutputFolder(const std::filesystem::path& path);

// Writes a whole file through OutputFile.
void WriteFile(const std::filesystem::path& path, std::string_view text);

}  // namespace twin
