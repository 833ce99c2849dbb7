#include "apps/serve/text/post_processor.h"

#include <string>

#include <nlohmann/json.hpp>

namespace twin::text {

namespace {

std::vector<TokenId> IdsOf(const JsonPart& token) {
  const nlohmann::json* ids = token.Find("ids");
  if (ids == nullptr || !ids->is_array()) token.RefuseField("ids", "must be a list of ids");
  std::vector<TokenId> result;
  for (const nlohmann::json& id : *ids) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > kTokenIdMax) {
      token.RefuseField("ids", "must be a list of ids");
    }
    result.push_back(id.get<TokenId>());
  }
  return result;
}

}  // namespace

void PostProcessor::Read(const JsonPart& part) {
  const std::string type = part.Text("type");
  if (type == "Sequence") {
    for (const JsonPart& step : part.Objects("processors")) Read(step);
  } else if (type == "ByteLevel") {
    trims_offsets_ = part.Flag("trim_offsets", true);
    keeps_first_space_ = part.Flag("add_prefix_space", true);
  } else if (type == "TemplateProcessing") {
    ReadTemplate(part);
  } else {
    part.RefuseField("type", "allowed are ByteLevel, Sequence, TemplateProcessing");
  }
}

void PostProcessor::ReadTemplate(const JsonPart& part) {
  std::vector<TokenId> before;
  std::vector<TokenId> after;
  bool has_text = false;
  for (const JsonPart& piece : part.Objects("single")) {
    if (piece.Has("Sequence")) {
      if (has_text) piece.Refuse("is the second Sequence; the template of one text has one");
      has_text = true;
      continue;
    }
    const std::string name = piece.Object("SpecialToken").Text("id");
    const std::vector<TokenId> ids = IdsOf(part.Object("special_tokens").Object(name));
    std::vector<TokenId>& side = has_text ? after : before;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (!has_text) part.RefuseField("single", "it needs one Sequence, the text");
  before_.insert(before_.begin(), before.begin(), before.end());
  after_.insert(after_.end(), after.begin(), after.end());
}

}  // namespace twin::text
