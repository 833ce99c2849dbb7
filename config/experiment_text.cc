#include "config/experiment_text.h"

#include <algorithm>
#include <utility>

#include "config/experiment.pb.h"
#include "config/names.h"
#include "config/override.h"
#include "config/servers/servers.h"
#include "config/text_message.h"
#include "core/check.h"

namespace twin {
namespace {

// The line without indentation and what follows the name of its field.
std::string_view FieldName(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  return line.substr(0, line.find_first_of(": "));
}

}  // namespace

std::string WriteAsked(const ExperimentConfig& config) {
  CHECK(config.asked != nullptr);
  return PrintText(*config.asked);
}

std::vector<FieldLine> LinesOf(std::string_view text) {
  std::vector<FieldLine> lines;
  std::vector<std::string> open;  // paths of the messages around the line
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::string around = open.empty() ? "" : open.back();
    if (line.ends_with('}') && FieldName(line) == "}") {
      CHECK(!open.empty());
      lines.push_back({std::string(line), around, FieldLine::Kind::kEnd});
      open.pop_back();
      continue;
    }
    const std::string path = FieldPath(around, FieldName(line));
    const bool opens = line.ends_with(" {");
    lines.push_back(
        {std::string(line), path, opens ? FieldLine::Kind::kMessage : FieldLine::Kind::kValue});
    if (opens) open.push_back(path);
  }
  return lines;
}

std::string TextOf(const std::vector<FieldLine>& lines) {
  std::string text;
  for (const FieldLine& line : lines) text += line.text + "\n";
  return text;
}

void AddComments(const std::function<std::string(std::string_view path)>& comment,
                 std::vector<FieldLine>& lines) {
  for (FieldLine& line : lines) {
    if (line.kind != FieldLine::Kind::kValue) continue;
    const std::string text = comment(line.path);
    if (!text.empty()) line.text += "  # " + text;
  }
}

void KeepFields(const std::function<bool(std::string_view path)>& keeps,
                std::vector<FieldLine>& lines) {
  std::vector<FieldLine> kept;
  for (FieldLine& line : lines) {
    const bool closes_empty = line.kind == FieldLine::Kind::kEnd && !kept.empty() &&
                              kept.back().kind == FieldLine::Kind::kMessage;
    if (closes_empty && !keeps(line.path)) {
      kept.pop_back();
    } else if (line.kind != FieldLine::Kind::kValue || keeps(line.path)) {
      kept.push_back(std::move(line));
    }
  }
  lines = std::move(kept);
}

FieldOrigins::FieldOrigins(const ExperimentConfig& config) : asked_(config.asked) {
  CHECK(asked_ != nullptr);
  auto filled = std::make_shared<proto::Experiment>(*asked_);
  const SystemConfig& system = config.system;
  if (filled->system().has_server()) {
    FillServerDefaults(system.model_spec, system.hardware_spec, system.parallelism, *filled);
  }
  filled_ = std::move(filled);
}

FieldOrigin FieldOrigins::Find(std::string_view path) const {
  if (IsSet(path, *asked_)) return FieldOrigin::kAsked;
  if (IsSet(path, *filled_)) return FieldOrigin::kServer;
  if (path.starts_with("system.model_shape.") && asked_->system().has_model()) {
    return FieldOrigin::kModel;
  }
  if (path.starts_with("system.hardware_spec.") && asked_->system().has_hardware()) {
    return FieldOrigin::kHardware;
  }
  return FieldOrigin::kDefault;
}

}  // namespace twin
