// Fields that several routes read: sampling, and the conversation of a chat.
#pragma once

#include "apps/serve/protocol/api_request.h"
#include "apps/serve/protocol/field_reader.h"

namespace twin::serve {

// Reads a field that only chooses other tokens and is not served. An emulated model draws its
// tokens from a generator and ignores the field with a warning. A real model refuses values other
// than `inert`, because its answer would differ.
void ReadUnsampled(FieldReader& reader, std::string_view name, double inert,
                   const run::ServedModel& model);

// The ranges in which a protocol allows temperature and its fellows.
struct SamplingRanges {
  double temperature_min = 0;
  double temperature_max = 2;
  bool open = false;  // TGI: the ends of all ranges are excluded
};
void ReadSampling(FieldReader& reader, const SamplingRanges& ranges, const run::ServedModel& model,
                  run::Sampling& sampling);

// The messages and template fields that /v1/chat/completions and /tokenize share.
ChatPrompt ReadChatPrompt(FieldReader& reader);

}  // namespace twin::serve
