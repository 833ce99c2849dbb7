#include "apps/recommend/evaluation_log.h"

#include <cmath>
#include <fstream>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/input_error.h"
#include "run/version.h"

namespace twin::run {
namespace {

using Json = nlohmann::ordered_json;

// Undefined numbers are null.
double NumberOf(const Json& json) { return json.is_null() ? std::nan("") : json.get<double>(); }

LoadRun RunOf(const Json& json) {
  LoadRun run;
  for (const Json& metric : json.at("metrics")) run.metrics.push_back(NumberOf(metric));
  for (const Json& room : json.at("rooms")) run.rooms.push_back(NumberOf(room));
  return run;
}

std::string LineOf(const std::string& key, const LoadRun& run) {
  const Json json{{"key", key}, {"metrics", run.metrics}, {"rooms", run.rooms}};
  return json.dump() + "\n";
}

std::string HeadOf(const std::string& search) {
  const Json json{
      {"version", kVersion}, {"commit", kCommit}, {"changed", kDirty}, {"search", search}};
  return json.dump();
}

}  // namespace

EvaluationLog::EvaluationLog(std::filesystem::path path, const std::string& search)
    : path_(std::move(path)) {
  Read(search);
  MakeOutputFolder(path_.parent_path());
  // Drops an incomplete last line.
  file_.emplace(path_, OutputFile::Appearance::kAtOnce);
  file_->Write(HeadOf(search) + "\n");
  for (const auto& [key, run] : read_) file_->Write(LineOf(key, run));
  file_->Flush();
}

void EvaluationLog::Read(const std::string& search) {
  std::ifstream file(path_, std::ios::binary);
  std::string line;
  if (!std::getline(file, line)) return;
  if (line != HeadOf(search)) {
    throw InputError(InputError::Kind::kUsage, path_.string(),
                     "is of another request or program; allowed: another folder, or without this "
                     "file");
  }
  while (std::getline(file, line)) {
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_discarded()) return;
    read_.emplace(json.at("key").get<std::string>(), RunOf(json));
  }
}

std::optional<LoadRun> EvaluationLog::Find(const std::string& key) const {
  const auto found = read_.find(key);
  return found == read_.end() ? std::nullopt : std::optional(found->second);
}

void EvaluationLog::Add(const std::string& key, const LoadRun& run) {
  const std::lock_guard lock(mutex_);
  file_->Write(LineOf(key, run));
  file_->Flush();
}

void EvaluationLog::Remove() {
  const std::lock_guard lock(mutex_);
  file_->Commit();
  file_.reset();
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
  std::filesystem::remove(path_.parent_path(), ignored);  // if it is empty
}

}  // namespace twin::run
