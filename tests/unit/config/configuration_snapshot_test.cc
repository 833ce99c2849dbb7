// What configurations resolve to and what is refused, compared with a snapshot: a change of the
// code that should change none of it is seen here.
//
// TWIN_UPDATE_SNAPSHOTS=1 writes the snapshots anew, which a new field or word needs.
// TWIN_SNAPSHOT_TEXTS=FOLDER also writes the whole texts, of which the snapshots hold hashes, so
// that two builds can be compared.
#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "apps/doctor/doctor_lists.h"
#include "config/experiment.pb.h"
#include "config/experiment_config.h"
#include "config/profile_folder.h"
#include "config/servers/servers.h"
#include "core/hash.h"
#include "core/input_error.h"
#include "run/deployment.h"

namespace twin {
namespace {

namespace fs = std::filesystem;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

const fs::path kSource = TWIN_SOURCE_DIR;

// Lines of a snapshot by name.
using Snapshot = std::map<std::string, std::string>;

std::string ReadAll(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string HashOf(const std::string& name, const std::string& text) {
  if (const char* const folder = std::getenv("TWIN_SNAPSHOT_TEXTS")) {
    std::string file = name;
    std::ranges::replace(file, '/', '_');
    std::ofstream(fs::path(folder) / file, std::ios::binary) << text;
  }
  return fmt::format("{:016x}", HashText(text));
}

// A text without the place of the source tree.
std::string Relocated(std::string text) {
  const std::string place = kSource.string() + "/";
  for (std::size_t at; (at = text.find(place)) != std::string::npos;) text.erase(at, place.size());
  return text;
}

// What reading and resolving says where it refuses; the hash of the text otherwise.
std::string Outcome(const std::string& name, const std::function<ExperimentConfig()>& read) {
  try {
    return HashOf(name, Relocated(WriteResolved(run::Resolve(read()).config)));
  } catch (const InputError& error) {
    return "refused: " + Relocated(error.what());
  }
}

void ExpectSnapshot(const std::string& file, const Snapshot& snapshot) {
  const fs::path path = kSource / "tests/golden/configurations" / file;
  std::string text;
  for (const auto& [name, line] : snapshot) text += fmt::format("{}\t{}\n", name, line);
  if (std::getenv("TWIN_UPDATE_SNAPSHOTS") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  Snapshot expected;
  std::istringstream lines(ReadAll(path));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t tab = line.find('\t');
    ASSERT_NE(tab, std::string::npos) << line;
    expected[line.substr(0, tab)] = line.substr(tab + 1);
  }
  for (const auto& [name, line] : snapshot) {
    EXPECT_EQ(line, expected.contains(name) ? expected[name] : "not in the snapshot") << name;
  }
  for (const auto& [name, line] : expected) EXPECT_TRUE(snapshot.contains(name)) << name;
}

// Studies, fits and questions of `recommend` have schemas of their own.
bool IsExperiment(const std::string& text) {
  const auto has = [&](const char* field) { return text.find(field) != std::string::npos; };
  return !has("\naxis {") && !has("\nfit") && !has("\nmodel");
}

// Files that begin with _ are bases.
TEST(ConfigurationSnapshotTest, EveryExperimentInTheTree) {
  Snapshot snapshot;
  for (const char* folder : {"checks", "docs/examples", "experiments"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kSource / folder)) {
      const std::string name = entry.path().lexically_relative(kSource).string();
      if (entry.path().extension() != ".textproto" || name.find("/_") != std::string::npos ||
          !IsExperiment(ReadAll(entry.path()))) {
        continue;
      }
      snapshot[name] = Outcome(name, [&] { return ReadExperiment(entry.path(), {}); });
    }
  }
  EXPECT_GT(snapshot.size(), 60U);
  ExpectSnapshot("experiments.tsv", snapshot);
}

constexpr const char* kAsked = R"(
workload { requests: 10 arrivals { kind: poisson rate: 1 }
  shape { prompt { kind: fixed value: 100 } output { kind: fixed value: 10 } } }
system { model: "llama-3-8b" hardware: "h100-sxm" }
)";

TEST(ConfigurationSnapshotTest, EveryServerOnEveryDeviceWithAProfile) {
  const ExperimentTemplate asked = ExperimentTemplate::FromText(kAsked, "asked");
  Snapshot snapshot;
  for (const ServerPreset& server : ServerPresets()) {
    for (const std::string_view device : ProfilePresetNames()) {
      const std::string name = fmt::format("{} on {}", server.name, device);
      const std::vector<std::string> changes = {fmt::format("system.server={}", server.name),
                                                fmt::format("system.hardware={}", device)};
      snapshot[name] = Outcome(name, [&] { return asked.With(changes, "/"); });
    }
  }
  ExpectSnapshot("servers.tsv", snapshot);
}

TEST(ConfigurationSnapshotTest, EveryList) {
  using apps::DoctorList;
  Snapshot snapshot;
  const std::map<std::string, DoctorList> lists = {
      {"models", DoctorList::kModels},          {"hardware", DoctorList::kHardware},
      {"servers", DoctorList::kServers},        {"policies", DoctorList::kPolicies},
      {"cost-models", DoctorList::kCostModels}, {"configuration", DoctorList::kConfiguration}};
  for (const auto& [name, list] : lists) {
    std::ostringstream text;
    apps::PrintList(list, text);
    snapshot[name] = HashOf("list " + name, text.str());
    if (list == DoctorList::kConfiguration) continue;
    std::ostringstream json;
    apps::PrintListJson(list, json);
    snapshot[name + " json"] = HashOf("list " + name + " json", json.str());
  }
  ExpectSnapshot("lists.tsv", snapshot);
}

// Values that the range of a field may refuse.
std::vector<std::string> Values(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
      return {"-1", "0", "2147483647"};
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return {"0", "4294967295"};
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT:
      return {"-1", "0", "2", "1e300"};
    case FieldDescriptor::CPPTYPE_ENUM:
      return {"no_such_word"};
    case FieldDescriptor::CPPTYPE_STRING:
      return {"", "no such thing"};
    case FieldDescriptor::CPPTYPE_BOOL:
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return {};
  }
  return {};
}

// Visits each field with a value of its own: `path` as --set takes it, and what to set before.
void ForEachValue(const Descriptor& type, const std::string& path, std::vector<std::string> before,
                  const std::function<void(const FieldDescriptor&, const std::string&,
                                           const std::vector<std::string>&)>& visit) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.is_repeated()) continue;
    const std::string at = path + (path.empty() ? "" : ".") + field.name();
    if (field.message_type() == nullptr) {
      visit(field, at, before);
      continue;
    }
    std::vector<std::string> inside = before;
    if (field.real_containing_oneof() != nullptr) inside.push_back(at + "={}");
    ForEachValue(*field.message_type(), at, inside, visit);
  }
}

TEST(ConfigurationSnapshotTest, EveryRefusedValueOfAField) {
  const ExperimentTemplate asked = ExperimentTemplate::FromText(kAsked, "asked");
  Snapshot snapshot;
  ForEachValue(*proto::Experiment::descriptor(), "", {},
               [&](const FieldDescriptor& field, const std::string& path,
                   const std::vector<std::string>& before) {
                 for (const std::string& value : Values(field)) {
                   std::vector<std::string> changes = before;
                   if (!path.starts_with("policy.")) changes.push_back("policy.vllm_v1={}");
                   changes.push_back(path + "=" + value);
                   try {
                     (void)asked.With(changes, "/");
                   } catch (const InputError& error) {
                     snapshot[changes.back()] = error.what();
                   }
                 }
               });
  EXPECT_GT(snapshot.size(), 500U);
  ExpectSnapshot("refusals.tsv", snapshot);
}

}  // namespace
}  // namespace twin
