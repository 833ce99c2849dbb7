// Random damage to valid traces: a reader parses the result or refuses it with a line, and nothing
// else. Runs under the sanitizers of the build; TWIN_FUZZ_RUNS sets the mutations per sample.

#include <gtest/gtest.h>

#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include "core/input_error.h"
#include "core/random.h"
#include "tests/unit/traces/trace_samples.h"
#include "traces/trace_limits.h"
#include "traces/workload.h"

namespace twin {
namespace {

std::int64_t Runs() {
  const char* runs = std::getenv("TWIN_FUZZ_RUNS");
  return runs == nullptr ? 20'000 : std::atoll(runs);
}

constexpr std::string_view kInsertions[] = {"nan",
                                            "-1",
                                            "inf",
                                            "1e999",
                                            "0",
                                            "2147483648",
                                            "-9223372036854775809",
                                            "99999999999999999999",
                                            ",",
                                            ",,",
                                            "\n",
                                            "\r\n",
                                            ";",
                                            "\"",
                                            "{",
                                            "}",
                                            "[[[",
                                            "]",
                                            ":",
                                            "null",
                                            "\0",
                                            "\xff\xfe",
                                            "\x1f\x8b",
                                            "1e-400",
                                            ".",
                                            "+5",
                                            "0x1",
                                            "1_000",
                                            "é",
                                            " ",
                                            "\t",
                                            "Z",
                                            "+99:99"};

std::size_t Position(Random& random, std::size_t size) {
  return static_cast<std::size_t>(random.UniformInt(0, static_cast<std::int64_t>(size)));
}

std::string Mutate(std::string text, Random& random) {
  const std::int64_t changes = random.UniformInt(1, 4);
  for (std::int64_t i = 0; i < changes; ++i) {
    const std::size_t at = Position(random, text.size());
    switch (random.UniformInt(0, 6)) {
      case 0:
        text.resize(at);
        break;
      case 1:
        if (at < text.size())
          text[at] = static_cast<char>(text[at] ^ (1 << random.UniformInt(0, 7)));
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(random.UniformInt(0, 255));
        break;
      case 3: {  // splice: a piece of the text to another place
        const std::string piece = text.substr(at, Position(random, 60));
        text.insert(Position(random, text.size()), piece);
        break;
      }
      case 4:
        text.erase(at, Position(random, 20));
        break;
      case 5:
        text.insert(at, kInsertions[random.UniformInt(0, std::ssize(kInsertions) - 1)]);
        break;
      default:
        text.insert(at, std::string(Position(random, 300), "9[;a"[random.UniformInt(0, 3)]));
    }
  }
  return text;
}

// What every accepted request must be, whatever was in the file.
void CheckContract(const TracedRequest& request, TimePoint last) {
  ASSERT_GE(request.arrival, last);
  ASSERT_LE(request.arrival.time_since_epoch(), kArrivalMax);
  ASSERT_GE(request.prompt_tokens, 1);
  ASSERT_LE(request.prompt_tokens, kTokensMax);
  ASSERT_GE(request.output_tokens, 1);
  ASSERT_GE(request.max_output_tokens, request.output_tokens);
  ASSERT_EQ(request.prefix_chunks.empty() || request.prefix_chunk_tokens >= 1, true);
}

// "trace:NUMBER: something", in one line. A rule that a whole run breaks is named by the request or
// the total: "trace: request NUMBER: something", "trace: completed: something".
bool NamesALine(std::string_view what) {
  constexpr std::string_view kFile = "trace:";
  if (!what.starts_with(kFile) || what.find('\n') != std::string_view::npos) return false;
  what.remove_prefix(kFile.size());
  if (what.starts_with(' ')) {
    return what.starts_with(" request ") || what.find(": found ") != std::string_view::npos ||
           what.find(": missing, or none; allowed: ") != std::string_view::npos ||
           what.starts_with(" none of ");
  }
  const std::size_t digits = what.find_first_not_of("0123456789");
  return digits != std::string_view::npos && digits > 0 && what.substr(digits).starts_with(": ") &&
         what.size() > digits + 2;
}

class TraceFuzzTest : public ::testing::TestWithParam<std::string> {};

TEST_P(TraceFuzzTest, EveryMutationParsesOrIsRefusedWithALine) {
  const std::string sample = ReadText(SamplePath(GetParam()));
  ASSERT_FALSE(sample.empty());
  const std::string format = FormatToName(GetParam());
  Random random(2024, GetParam());
  std::int64_t accepted = 0;
  std::int64_t refused = 0;
  for (std::int64_t run = 0; run < Runs(); ++run) {
    const std::string text = Mutate(sample, random);
    try {
      const auto reader = OpenText(text, format);
      TracedRequest request;
      TimePoint last = kTimeZero;
      while (reader->Next(request)) {
        CheckContract(request, last);
        last = request.arrival;
      }
      ++accepted;
    } catch (const InputError& error) {
      const std::string what = error.what();
      ASSERT_TRUE(NamesALine(what)) << "run " << run << ": " << what;
      ++refused;
    }
    ASSERT_FALSE(HasFatalFailure()) << "run " << run << ": " << text;
  }
  // Mutations that change nothing of weight exist, as do fatal ones: else the fuzzer is broken.
  EXPECT_GT(accepted, 0);
  EXPECT_GT(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(Samples, TraceFuzzTest, ::testing::ValuesIn(SampleFiles()),
                         SampleTestName);

// The generator's files, damaged in turn; a few requests are drawn from what is accepted.
TEST(ServeGenFuzzTest, EveryMutationDrawsOrIsRefused) {
  const std::string arrivals =
      "client,window_start_s,rate_rps,iat_cv,dist,shape,scale_s\n3,0,0.05,30,Gamma,0.01,200\n"
      "4,0,0.1,1,Weibull,1,10\n3,600,0.1,1,Gamma,1,1\n";
  const std::string lengths =
      "client,window_start_s,field,q0,q50,q100\n3,0,input_tokens,0,100,200\n"
      "3,0,output_tokens,1,11,21\n4,0,text_tokens,7,7,7\n4,0,output_tokens,8,8,8\n";
  const ScratchDirectory scratch("servegen_fuzz");
  Random random(2024, "servegen");
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(scratch.File(name), std::ios::binary) << text;
  };
  WorkloadConfig config;
  config.requests = 40;
  config.servegen =
      ServeGenConfig{.arrivals_path = scratch.File("a"), .lengths_path = scratch.File("l")};
  std::int64_t accepted = 0;
  const std::int64_t runs = Runs() / 10;
  for (std::int64_t run = 0; run < runs; ++run) {
    write("a", run % 2 == 0 ? Mutate(arrivals, random) : arrivals);
    write("l", run % 2 == 1 ? Mutate(lengths, random) : lengths);
    try {
      const auto source = MakeWorkload(config, 1);
      TimePoint last = kTimeZero;
      for (; source->Peek() != nullptr; source->Take()) {
        CheckContract(*source->Peek(), last);
        last = source->Peek()->arrival;
      }
      ++accepted;
    } catch (const InputError& error) {
      ASSERT_NE(std::string_view(error.what()), "");
    }
    ASSERT_FALSE(HasFatalFailure()) << "run " << run;
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, runs);
}

}  // namespace
}  // namespace twin
