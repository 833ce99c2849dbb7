// The reference of experiment files, generated from the schemas: their fields, rules and comments,
// and the defaults of the config structs.
#pragma once

#include <string>
#include <vector>

namespace twin {

// docs/configuration.md.
std::string ConfigurationPage();

// A member of `policy` or of `cost`.
struct ConfigurationChoice {
  std::string name;
  std::string description;            // one line
  std::vector<std::string> defaults;  // "field: value"
};
std::vector<ConfigurationChoice> PolicyChoices();
std::vector<ConfigurationChoice> CostChoices();

}  // namespace twin
