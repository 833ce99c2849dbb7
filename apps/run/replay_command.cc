// twinserve replay: runs the scheduler again on recorded events and compares its plans.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "apps/commands.h"
#include "apps/terminal_control.h"
#include "config/experiment_config.h"
#include "core/hash.h"
#include "core/input_error.h"
#include "run/files/record_file.h"
#include "run/finish_run.h"
#include "run/replay.h"
#include "run/run_directory.h"
#include "sched/policy/policy_config.h"

namespace twin::apps {
namespace {

// A policy that the caller of the library wrote is not part of the program; one of a file is
// loaded.
void RequireKnownPolicy(const RecordHeader& header, const ExperimentConfig& config,
                        const std::filesystem::path& run) {
  if (config.policy_file) return;
  const std::vector<std::string_view> names = PolicyNames();
  if (std::find(names.begin(), names.end(), header.policy) != names.end()) return;
  throw InputError(InputError::Kind::kUsage, run.string(),
                   fmt::format("was decided by the policy {}, which is not built in; allowed: "
                               "twinserve.replay(run, policy=...) in Python",
                               header.policy));
}

// The digest in the summary beside a record; empty without a summary, which killed runs lack.
std::string DigestOfSummary(const std::filesystem::path& run) {
  if (!std::filesystem::exists(run / "summary.json")) return "";
  const Summary summary = run::ReadSummary(run);
  const SummaryValue* const digest = summary.Find("digest");
  if (digest != nullptr && std::holds_alternative<std::string>(*digest)) {
    return std::get<std::string>(*digest);
  }
  throw InputError(InputError::Kind::kData, (run / "summary.json").string(),
                   "has no digest; allowed: the summary that the run wrote, or none");
}

void Replay(const std::filesystem::path& run, CommandContext& context) {
  const std::filesystem::path file = std::filesystem::is_directory(run) ? run / "record.pb" : run;
  if (!std::filesystem::exists(file)) {
    throw InputError(InputError::Kind::kUsage, run.string(),
                     "has no record.pb; allowed: a run directory made with outputs.record");
  }
  RecordReader reader(file, RecordReader::WithoutEnd::kReadWhatIsThere);
  const ExperimentConfig config =
      ParseExperiment(reader.header().config, file.string() + ": config", run);
  RequireKnownPolicy(reader.header(), config, run);
  const run::ReplayResult decided = run::ReplayDecisions(reader, config, reader.header());
  if (decided.difference) {
    std::cout << "decided differs from recorded after " << decided.equal_plans << " equal plans\n"
              << decided.difference->text() << "\n";
    context.exit_code = 1;
    return;
  }
  const std::string summary =
      reader.end().other_encoding ? "" : DigestOfSummary(file.parent_path());
  if (!reader.complete()) {
    std::cerr << "the record has no end: the run was killed, or goes on\n";
  }
  const bool equal = decided.digest == reader.end().digest;
  std::cout << "recorded " << HexText(reader.end().digest) << "  " << reader.end().plans
            << " plans\n"
            << "decided  " << decided.digest_text << "  " << decided.plans << " plans\n"
            << (equal ? "equal\n" : "different\n");
  if (reader.end().other_encoding) {
    std::cerr << "the record is of a version whose digests differ; its digest was computed anew\n";
  }
  if (!equal) context.exit_code = 1;
  if (summary.empty() || summary == HexText(reader.end().digest)) return;
  std::cout << "summary  " << summary << "\n";
  std::cerr << "the record or the summary beside it was cut or changed after the run\n";
  context.exit_code = 1;
}

void Finish(const std::filesystem::path& run, const CommandContext& context) {
  TerminalReports reports;
  (void)run::FinishRun(run, context.command_line, reports);
  std::cerr << "wrote " << (run / "summary.json").string() << "\n";
}

}  // namespace

void AddReplayCommand(CommandParser app, CommandContext& context) {
  auto run = std::make_shared<std::string>();
  auto finish = std::make_shared<bool>(false);
  CommandParser command = app.AddCommand(
      "replay", "Run the scheduler again on a recorded run and check that every plan is identical");
  command.AddOption("RUN_DIR", *run, "Run directory with a record.pb").Required();
  command.AddFlag("--finish", *finish,
                  "Complete the run directory of a service that was killed: write summary.json, "
                  "the tables and the end of the record");
  command.OnCall([run, finish, &context] {
    if (*finish) Finish(*run, context);
    Replay(*run, context);
  });
}

}  // namespace twin::apps
