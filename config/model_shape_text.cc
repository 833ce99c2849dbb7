#include "config/model_shape_text.h"

#include "config/model.bind.h"
#include "config/model.pb.h"
#include "config/overlay.h"
#include "config/text_message.h"

namespace twin {

std::string WriteModelShape(const ModelSpec& model) {
  proto::ModelShape message;
  ModelSpec copy = model;
  ToMessage fields(message);
  Bind(fields, copy);
  return message.ShortDebugString();
}

ModelSpec ParseModelShape(std::string_view text, const std::string& source) {
  proto::ModelShape message;
  ParseText(text, {source, false}, message);
  CheckRules(message, source);
  ModelSpec model;
  FromMessage fields(message);
  Bind(fields, model);
  return model;
}

}  // namespace twin
