// The bodies of TGI's /generate, /generate_stream and /.
#include <fmt/format.h>

#include <limits>
#include <utility>

#include "apps/serve/protocol/api_request.h"
#include "apps/serve/protocol/field_reader.h"
#include "apps/serve/protocol/json_body.h"
#include "apps/serve/protocol/request_fields.h"

namespace twin::serve {
namespace {

constexpr std::int32_t kNewTokensMax = std::numeric_limits<std::int32_t>::max();
constexpr const char* kNotServed = "is not served; leave it out";

void ReadStopFields(FieldReader& reader, ApiRequest& request) {
  request.stop = reader.Texts("stop", kStopsMax);
  for (const std::string& stop : request.stop) {
    if (stop.empty() || stop.size() > kStopBytesMax) {
      reader.Fail(
          ApiErrorKind::kValue, "stop",
          fmt::format("a stop text has {} bytes; allowed: 1 to {}", stop.size(), kStopBytesMax));
    }
  }
  request.keep_stop = true;
  request.show_held_bytes = true;
}

void ReadParameters(FieldReader& reader, ApiRequest& request, const run::ServedModel& model) {
  run::GenerationRequest& generation = request.generation;
  if (const auto tokens = reader.Integer("max_new_tokens", 1, kNewTokensMax)) {
    request.max_tokens = static_cast<std::int32_t>(*tokens);
  }
  ReadStopFields(reader, request);
  // Without do_sample TGI decodes greedily, whatever the temperature.
  const bool samples = reader.Boolean("do_sample").value_or(false);
  ReadSampling(reader, {0, std::numeric_limits<double>::max(), true}, model, generation.sampling);
  if (!samples) generation.sampling = {};
  if (const auto seed = reader.Integer("seed", 0, std::numeric_limits<std::int64_t>::max())) {
    generation.sampling.seed = static_cast<std::uint64_t>(*seed);
  }
  if (reader.Number("frequency_penalty", -2, 2)) {
    ReadUnsampled(reader, "frequency_penalty", 0, model);
  }
  ReadUnsampled(reader, "repetition_penalty", 1, model);
  reader.IgnoreUnless("typical_p", 1);
  if (const auto truncate = reader.Integer("truncate", 1, kNewTokensMax)) {
    request.truncate_to = static_cast<std::int32_t>(*truncate);
  }
  request.echo = reader.Boolean("return_full_text").value_or(false);
  request.details = reader.Boolean("details").value_or(false);
  if (reader.Integer("best_of", 1, 2).value_or(1) > 1) {
    reader.Fail(ApiErrorKind::kValue, "best_of", "best_of is not served; allowed: 1");
  }
  for (const char* field : {"decoder_input_details", "top_n_tokens", "grammar", "adapter_id"}) {
    reader.Refuse(field, kNotServed);
  }
  reader.Ignore({"watermark"});
  generation.ignore_eos = reader.Boolean("ignore_eos").value_or(false);
  reader.IgnoreRest();
}

}  // namespace

ParsedRequest ParseGenerate(const JsonBody& body, const run::ServedModel& model) {
  FieldReader reader(body.fields);
  ApiRequest request;
  request.form = AnswerForm::kGenerate;
  const auto inputs = reader.Text("inputs");
  if (!inputs) {
    reader.Fail(ApiErrorKind::kSchema, "inputs", "inputs must be a text");
  } else if (inputs->empty()) {
    reader.Fail(ApiErrorKind::kValue, "inputs", "inputs must not be empty");
  }
  request.prompts = PromptTexts{inputs.value_or("")};
  request.stream = reader.Boolean("stream").value_or(false);
  request.generation.logprobs = 0;  // each token comes with its own logprob
  const FieldReader::Json* parameters = reader.Find("parameters");
  if (parameters != nullptr && !parameters->is_object()) {
    reader.Fail(ApiErrorKind::kSchema, "parameters", "parameters must be an object");
  } else if (parameters != nullptr) {
    FieldReader inner(*parameters, "parameters.");
    ReadParameters(inner, request, model);
    reader.Take(inner);
  } else {
    const FieldReader::Json none = FieldReader::Json::object();
    FieldReader inner(none);
    ReadParameters(inner, request, model);
    // TGI samples when it is given no parameters at all.
    if (model.samples) request.generation.sampling.temperature = 1;
  }
  reader.IgnoreRest();
  if (auto error = reader.error()) return std::move(*error);
  request.warnings = reader.warnings();
  return request;
}

}  // namespace twin::serve
