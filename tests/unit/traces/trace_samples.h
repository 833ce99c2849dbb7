// Samples and shorthands that the tests of the trace layer share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/traced_request.h"
#include "tests/support/unique_name.h"
#include "traces/trace_format.h"

namespace twin {

inline std::string SamplePath(const std::string& name) {
  return std::string(TWIN_SOURCE_DIR) + "/traces/samples/" + name;
}

inline std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::vector<TracedRequest> ReadAll(RequestStream& stream) {
  std::vector<TracedRequest> requests;
  TracedRequest request;
  while (stream.Next(request)) requests.push_back(request);
  return requests;
}

inline std::unique_ptr<TraceReader> OpenText(std::string text, std::string_view format = "",
                                             const TraceReadOptions& options = {}) {
  return OpenTrace(std::make_unique<LineReader>("trace", Decompress(MemoryBytes(std::move(text)))),
                   format, options);
}

inline std::vector<TracedRequest> ParseText(std::string text, std::string_view format = "",
                                            const TraceReadOptions& options = {}) {
  return ReadAll(*OpenText(std::move(text), format, options));
}

// The names of all files in traces/samples, sorted.
inline std::vector<std::string> SampleFiles() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(SamplePath(""))) {
    files.push_back(entry.path().filename().string());
  }
  std::ranges::sort(files);
  return files;
}

// The format of a sample: the longest name of a format with which the name of its file begins.
inline std::string SampleFormat(const std::string& file) {
  std::string longest;
  for (const TraceFormat& format : TraceFormats()) {
    if (file.starts_with(format.name) && format.name.size() > longest.size()) {
      longest = format.name;
    }
  }
  return longest;
}

// The format to name when the sample is opened; empty if its first line tells the format.
inline std::string FormatToName(const std::string& file) {
  const std::string text = ReadText(SamplePath(file));
  std::string line = text.substr(0, text.find('\n'));
  if (line.ends_with('\r')) line.pop_back();
  for (const TraceFormat& format : TraceFormats()) {
    if (format.recognises(line)) return format.name == SampleFormat(file) ? "" : SampleFormat(file);
  }
  return SampleFormat(file);
}

// The name of a sample as part of the name of a test.
inline std::string SampleTestName(const ::testing::TestParamInfo<std::string>& test) {
  std::string name = test.param;
  std::ranges::replace(name, '.', '_');
  return name;
}

// A directory of this test's own below the system's, removed at the end.
class ScratchDirectory {
 public:
  explicit ScratchDirectory(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / twin::testing::UniqueName(name)) {
    std::filesystem::create_directories(path_);
  }
  ~ScratchDirectory() { std::filesystem::remove_all(path_); }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  [[nodiscard]] std::string File(const std::string& name) const { return (path_ / name).string(); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace twin
