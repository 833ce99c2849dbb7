// The fields of all protocols that choose tokens rather than lengths or times.
#pragma once

#include "apps/serve/protocol/api_request.h"
#include "apps/serve/protocol/field_reader.h"

namespace twin::serve {

// What a field that only chooses other tokens means to this model: an emulated one draws its tokens
// from a generator and ignores the field with a warning; a real one without the feature refuses
// what is not the default, because its answer would be another one.
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

}  // namespace twin::serve
