#include "apps/generate/prompt_file.h"

#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include <nlohmann/json.hpp>

#include "core/files/input_file.h"
#include "core/input_error.h"
#include "core/printable.h"

namespace twin::apps {
namespace {

using nlohmann::json;

[[noreturn]] void Refuse(const std::string& where, const std::string& what) {
  throw InputError(InputError::Kind::kData, where, what);
}

std::string Shown(const json& value) {
  return Printable(value.dump(-1, ' ', true, json::error_handler_t::replace));
}

// True for whole numbers from 0 to below `end`.
bool IsBelow(const json& value, std::uint64_t end) {
  return value.is_number_unsigned() && value.get<std::uint64_t>() < end;
}

std::vector<std::int32_t> ReadTokens(const json& object, const PromptLimits& limits,
                                     const std::string& where) {
  const auto ids = object.find("token_ids");
  if (ids == object.end() || !ids->is_array() || ids->empty()) {
    Refuse(where, "field 'token_ids' must be a list of at least one token id");
  }
  if (ids->size() > static_cast<std::size_t>(limits.tokens_max)) {
    Refuse(where, "field 'token_ids' has " + std::to_string(ids->size()) +
                      " tokens; the model's positions allow " + std::to_string(limits.tokens_max) +
                      " with as many new tokens as asked for");
  }
  std::vector<std::int32_t> tokens;
  for (const json& id : *ids) {
    if (!IsBelow(id, static_cast<std::uint64_t>(limits.vocab))) {
      Refuse(where, "field 'token_ids' holds " + Shown(id) + "; allowed: whole numbers from 0 to " +
                        std::to_string(limits.vocab - 1));
    }
    tokens.push_back(id.get<std::int32_t>());
  }
  return tokens;
}

Prompt ParsePrompt(const std::string& line, const PromptLimits& limits, const std::string& where) {
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object()) {
    Refuse(where, "is no JSON object; allowed: {\"prompt\": i, \"token_ids\": [...]}");
  }
  const auto number = object.find("prompt");
  constexpr std::uint64_t kNumbersEnd = std::uint64_t{1} << 62;
  if (number == object.end() || !IsBelow(*number, kNumbersEnd)) {
    Refuse(where, "field 'prompt' must be the prompt's number, 0 or more");
  }
  return {number->get<std::int64_t>(), ReadTokens(object, limits, where)};
}

void AppendNumber(float number, std::string& line) {
  if (!std::isfinite(number)) {
    line += "null";
    return;
  }
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  line.append(digits.data(), end.ptr);
}

// Calls append(element, line) for each element, and writes brackets and commas around the elements.
template <class List, class Append>
void AppendList(const List& list, std::string& line, const Append& append) {
  line += '[';
  bool first = true;
  for (const auto& element : list) {
    if (!first) line += ',';
    first = false;
    append(element, line);
  }
  line += ']';
}

void AppendLogits(const std::vector<float>& logits, std::string& line) {
  AppendList(logits, line, AppendNumber);
}

void AppendLogprobs(const std::vector<kernels::TokenLogprob>& logprobs, std::string& line) {
  AppendList(logprobs, line, [](const kernels::TokenLogprob& each, std::string& to) {
    to += '[' + std::to_string(each.token) + ',';
    AppendNumber(each.logprob, to);
    to += ']';
  });
}

}  // namespace

std::vector<Prompt> ReadPrompts(const std::string& path, const PromptLimits& limits) {
  RequireRegularFileIfThere(path);
  std::ifstream in(path);
  if (!in) Refuse(path, "cannot be read");
  std::vector<Prompt> prompts;
  std::set<std::int64_t> numbers;
  std::int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    const std::string where = path + ":" + std::to_string(++number);
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Prompt prompt = ParsePrompt(line, limits, where);
    if (!numbers.insert(prompt.number).second) {
      Refuse(where, "prompt " + std::to_string(prompt.number) + " is there twice");
    }
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) {
    Refuse(path, "holds no prompt; allowed: NDJSON, {\"prompt\": i, \"token_ids\": [...]} a line");
  }
  return prompts;
}

std::string GenerationLine(std::int64_t number, const exec::Generation& generation,
                           exec::KeptLogits kept) {
  const bool greedy = generation.sampling.temperature == 0;
  std::string line = "{\"prompt\":" + std::to_string(number);
  line += greedy ? ",\"greedy\":" : ",\"sampled\":";
  line += json(generation.output).dump();
  if (!generation.logprobs.empty()) {
    line += ",\"logprobs\":";
    AppendList(generation.logprobs, line, AppendLogprobs);
  }
  if (kept != exec::KeptLogits::kNone) {
    line += ",\"last_logits\":";
    AppendLogits(generation.last_logits, line);
  }
  if (kept == exec::KeptLogits::kAll) {
    line += ",\"all_logits\":";
    AppendList(generation.all_logits, line, AppendLogits);
  }
  return line + "}\n";
}

}  // namespace twin::apps
