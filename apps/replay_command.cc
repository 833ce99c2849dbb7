// twinserve replay: decide a recorded run again and compare.
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "core/input_error.h"
#include "proto/experiment_config.h"
#include "proto/record_file.h"
#include "record/plan_digest.h"
#include "record/recording_world.h"
#include "record/replay_world.h"
#include "sched/engine.h"
#include "sched/serve.h"

namespace twin::apps {
namespace {

std::string Hex(std::uint64_t digest) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(digest));
  return text;
}

void Replay(const std::filesystem::path& run, CommandContext& context) {
  const std::filesystem::path file = std::filesystem::is_directory(run) ? run / "record.pb" : run;
  if (!std::filesystem::exists(file)) {
    throw InputError(InputError::Kind::kUsage, run.string(),
                     "has no record.pb; allowed: a run directory made with outputs.record");
  }
  RecordReader reader(file);
  const ExperimentConfig config =
      ParseExperiment(reader.header().config, file.string() + ": config", run);
  const EngineConfig& engine_config = reader.header().engine;
  Engine engine(engine_config, MakePolicy(config.policy, engine_config.kv));
  ReplayWorld replayed(reader);
  PlanDigest digest;
  RunObserver* const observers[] = {&digest};
  RecordingWorld world(replayed, observers);
  Serve(engine, world);
  if (replayed.difference()) {
    std::cout << "decided differs from recorded after " << replayed.equal_plans()
              << " equal plans\n"
              << replayed.difference()->text() << "\n";
    context.exit_code = 1;
    return;
  }
  const bool equal = digest.value() == reader.end().digest;
  std::cout << "recorded " << Hex(reader.end().digest) << "  " << reader.end().plans << " plans\n"
            << "decided  " << digest.text() << "  " << digest.plans() << " plans\n"
            << (equal ? "equal\n" : "different\n");
  if (!equal) context.exit_code = 1;
}

}  // namespace

void AddReplayCommand(CLI::App& app, CommandContext& context) {
  auto run = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("replay", "Decide a recorded run again, compare digests");
  command->add_option("RUN_DIR", *run, "Run directory")->required();
  command->callback([run, &context] { Replay(*run, context); });
}

}  // namespace twin::apps
