// Lists the fields in which experiment configs differ.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace twin {

struct ConfigText {
  std::string name;  // for errors: the file
  std::string text;  // of a config.resolved.textproto
};

// A field that differs between configs.
struct FieldDifference {
  std::string path;                 // as --set takes it: policy.vllm_v1.max_num_seqs
  std::vector<std::string> values;  // by config, as --set takes them; "-" where it is not set
};

// Compares field by field, in the order of the schema as far as configs have equal fields. A list
// of numbers or strings counts as one field; a list of messages is compared element by element
// (workload.classes[1].weight).
// A message without fields, such as policy.orca {}, has the value "{}".
// Throws InputError (usage) if a text is no experiment: file, line, field, what is wrong.
std::vector<FieldDifference> ConfigDifferences(std::span<const ConfigText> configs);

}  // namespace twin
