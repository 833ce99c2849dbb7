// twinserve serve: serves an experiment's system by the protocols of OpenAI and TGI.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "apps/commands.h"
#include "apps/experiment_names.h"
#include "apps/interrupt.h"
#include "apps/options.h"
#include "apps/serve/real_time_priority.h"
#include "apps/serve/send_times.h"
#include "apps/serve/service/serving_engine.h"
#include "apps/serve/serving_front.h"
#include "apps/serve/serving_text.h"
#include "apps/serve/text/named_templates.h"
#include "apps/terminal_control.h"
#include "config/experiment_config.h"
#include "core/files/output_file.h"
#include "core/input_error.h"
#include "run/version.h"

namespace twin::apps {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(50);
constexpr std::size_t kKeyBytesMax = 4096;
constexpr unsigned kThreadsUnlessGiven = 4;  // at most

struct ServeArguments {
  std::string experiment;
  std::vector<std::string> assignments;
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;
  std::string out;
  std::string ready_file;
  std::string send_times;
  std::string api_key_file;
  std::string admin_key_file;
  std::string tokenizer;
  std::string chat_template;
  std::optional<double> characters_per_token;
  double drain_s = 30;
  int overload_status = 429;
  bool guard_metrics = false;
  bool quiet = false;
  RealTime real_time = RealTime::kAuto;
  std::size_t threads = std::clamp(std::thread::hardware_concurrency(), 1U, kThreadsUnlessGiven);
  serve::HttpLimits limits;
  run::ServingOptions serving;
};

// The first line of the file, or the value of the environment variable; "" if neither is given. A
// key on the command line would be in the list of processes.
std::string ReadKey(const std::string& file, const char* option, const char* variable) {
  if (file.empty()) {
    const char* value = std::getenv(variable);
    return value == nullptr ? "" : value;
  }
  std::ifstream stream(file);
  // A device may never end its line.
  std::array<char, kKeyBytesMax + 2> line{};
  stream.getline(line.data(), line.size());
  const std::string key = line.data();
  if (!stream || key.empty() || key.size() > kKeyBytesMax) {
    throw InputError(
        InputError::Kind::kUsage, option,
        fmt::format("{} has no key in its first line; allowed: 1 to {} bytes", file, kKeyBytesMax));
  }
  return key;
}

// Shows notes and warnings. Never asks work to stop, because a signal drains.
class ServeReports final : public TerminalReports {};

void WarnOfAddress(const serve::ServingFront& server, const ServeArguments& arguments,
                   const std::string& key) {
  if (server.loopback() || !key.empty()) return;
  std::cerr << fmt::format(
      "warning: {} can be reached from other machines, and no API key is set; see --api-key-file\n",
      arguments.host);
}

// Returns once a signal has been given and the requests have ended, or at a second signal. Returns
// early if the service has ended: Finish() of the engine says why.
void ServeUntilSignal(serve::ServingFront& server, run::ServingEngine& engine, double drain_s) {
  bool ended = false;
  while (!ended && SignalCount::given() < 1) ended = engine.AwaitDrained(kPoll);
  if (!ended) std::cerr << "draining: no new requests; a second signal ends at once\n";
  engine.Drain();
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(drain_s);
  while (std::chrono::steady_clock::now() < end && SignalCount::given() < 2) {
    // Connections stay open meanwhile, so that /health can say why.
    if (engine.AwaitDrained(kPoll)) break;
  }
  server.Drain();
  if (SignalCount::given() > 1) return;
  // The last answers are still being sent.
  server.WaitUntilIdle(std::chrono::seconds(1));
}

serve::FrontOptions OptionsOf(const ServeArguments& arguments) {
  serve::FrontOptions options;
  options.http = arguments.limits;
  options.api_key = ReadKey(arguments.api_key_file, "--api-key-file", "TWINSERVE_API_KEY");
  options.admin_key = ReadKey(arguments.admin_key_file, "--admin-key-file", "TWINSERVE_ADMIN_KEY");
  options.guard_metrics = arguments.guard_metrics;
  options.overload_status = arguments.overload_status;
  options.version = run::kVersion;
  options.threads = arguments.threads;
  return options;
}

void Serve(ServeArguments arguments, CommandContext& context) {
  const ExperimentConfig config =
      ReadExperiment(ExperimentFile(arguments.experiment), arguments.assignments);
  // Before any other thread starts, so that all of them have it.
  const std::string priority = SetPriority(arguments.real_time, config.world);
  if (!priority.empty()) std::cerr << priority << "\n";
  serve::FrontOptions options = OptionsOf(arguments);
  const ServingText text(
      config, {arguments.tokenizer, arguments.chat_template, arguments.characters_per_token});
  ServeReports reports;
  for (const std::string& note : text.notes()) reports.OnNote(note);
  for (const std::string& warning : text.warnings()) reports.OnWarning(warning);
  arguments.serving.out = arguments.out.empty() ? "runs/" + config.name : arguments.out;
  arguments.serving.command_line = context.command_line;
  arguments.serving.drawn_tokens = text.drawn_tokens();
  arguments.serving.end_tokens = text.end_tokens();
  const std::unique_ptr<run::ServingEngine> engine =
      run::StartServing(config, arguments.serving, reports);
  std::optional<SendTimes> send_times;
  if (!arguments.send_times.empty()) {
    send_times.emplace(arguments.send_times, *engine);
    options.on_sent = [&](const serve::SentTokens& tokens) { send_times->Write(tokens); };
  }
  std::optional<OutputFile> ready;
  if (!arguments.ready_file.empty()) ready.emplace(arguments.ready_file);
  const bool quiet = arguments.quiet;
  std::optional<serve::ServingFront> server;
  server.emplace(*engine, text.tools(), options, arguments.host, arguments.port,
                 [quiet](const std::string& line) {
                   if (!quiet) std::cerr << line + "\n";
                 });
  WarnOfAddress(*server, arguments, options.api_key);
  const SignalCount signals;
  server->Start();
  engine->Commence();
  std::cerr << fmt::format("serving {} ({}) at http://{}:{}\n", engine->model().name,
                           engine->model().policy, arguments.host, server->port());
  if (ready) {
    ready->Write(fmt::format("{{\"port\": {}}}\n", server->port()));
    ready->Commit();
  }
  ServeUntilSignal(*server, *engine, arguments.drain_s);
  // Answers that have not ended end now, and their clients hear of it before the front goes.
  engine->Finish();
  server->WaitUntilIdle(std::chrono::seconds(1));
  server.reset();
  if (send_times) send_times->Finish();
  std::cerr << "wrote " << arguments.serving.out.string() << "\n";
}

void AddLimits(CommandParser command, ServeArguments& arguments) {
  serve::HttpLimits& limits = arguments.limits;
  const std::string group = "Limits";
  command.AddOption("--max-connections", limits.connections, "Open connections")
      .ShowDefault()
      .InRange(1, 1'000'000)
      .Group(group);
  command.AddOption("--max-body-bytes", limits.body_bytes, "Bytes of a request's body")
      .ShowDefault()
      .InRange(1024, 1 << 30)
      .Group(group);
  command
      .AddOption("--max-waiting-requests", arguments.serving.waiting_requests_max,
                 "Requests that wait; more are refused with 429")
      .ShowDefault()
      .InRange(1, 1'000'000'000)
      .Group(group);
  command
      .AddOption("--max-waiting-prompt-tokens", arguments.serving.waiting_prompt_tokens_max,
                 "Prompt tokens of waiting requests; more are refused with 429")
      .ShowDefault()
      .InRange(1, 2'000'000'000)
      .Group(group);
  command
      .AddOption("--overload-status", arguments.overload_status,
                 "Status of refused requests: 429, or 503 as vLLM answers")
      .ShowDefault()
      .OneOf({429, 503})
      .Group(group);
  command
      .AddOption("--drain-s", arguments.drain_s,
                 "Seconds that running requests get after the first SIGTERM or SIGINT")
      .ShowDefault()
      .InRange(0.0, 86'400.0)
      .Group(group);
}

}  // namespace

void AddServeCommand(CommandParser app, CommandContext& context) {
  auto arguments = std::make_shared<ServeArguments>();
  CommandParser command = app.AddCommand(
      "serve", "Serve a real or emulated system to clients of OpenAI's and TGI's protocols");
  command.AddOption("EXPERIMENT", arguments->experiment, "Experiment file (.textproto)").Required();
  AddOverrideOptions(command, arguments->assignments);
  command.AddOption("--host", arguments->host, "Address to listen on").ShowDefault();
  command.AddOption("--port", arguments->port, "Port to listen on; 0 takes a free one")
      .ShowDefault();
  command.AddOption("--out", arguments->out, "Run directory (default: runs/NAME)");
  command.AddOption("--ready-file", arguments->ready_file,
                    "Written as {\"port\": N} once requests are accepted");
  command.AddOption(
      "--send-times", arguments->send_times,
      "Table (CSV) of when each token of a stream was due, and when the socket had it");
  command.AddOption("--api-key-file", arguments->api_key_file,
                    "File with the clients' key (or environment variable TWINSERVE_API_KEY)");
  command.AddOption(
      "--admin-key-file", arguments->admin_key_file,
      "File with the key of /v1/twinserve/record (or environment variable TWINSERVE_ADMIN_KEY)");
  command.AddFlag("--guard-metrics", arguments->guard_metrics,
                  "/metrics and the live page's numbers need the clients' key too");
  command.AddOption("--tokenizer", arguments->tokenizer,
                    "tokenizer.json or its folder (default: the model directory's; a model "
                    "without one can have a stand-in)");
  command.AddOption("--chat-template", arguments->chat_template,
                    "File with a chat template, or one of " + text::NamesOfTemplates() +
                        " (default: the model's, else chatml)");
  command
      .AddOption("--characters-per-token", arguments->characters_per_token,
                 "Characters per token of the stand-in tokenizer (default: 4 for an emulated "
                 "model; a real model without a tokenizer has a stand-in only if this is given)")
      .InRange(2.0, 12.0);
  command
      .AddOption("--threads", arguments->threads,
                 "Threads that read requests and send tokens (default: one per core, at most " +
                     std::to_string(kThreadsUnlessGiven) + ")")
      .InRange(1, 64);
  command.AddEnumOption<RealTime>(
      "--real-time", arguments->real_time,
      {{"auto", RealTime::kAuto}, {"on", RealTime::kOn}, {"off", RealTime::kOff}},
      "Run the server of an emulated world before all ordinary programs on the machine (SCHED_RR), "
      "so that tokens leave in time (default: auto, which does so at speed 1 where the process "
      "may: CAP_SYS_NICE or ulimit -r)");
  command.AddFlag("--quiet", arguments->quiet, "Print no line per request");
  AddLimits(command, *arguments);
  command.OnCall([arguments, &context] { Serve(*arguments, context); });
}

}  // namespace twin::apps
