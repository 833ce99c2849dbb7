// An experiment as text for people: the fields that were asked for, and where each field of a
// resolved experiment comes from.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/experiment_config.h"

namespace twin {

// The fields that the file, its bases and the changes set, in text format. Reading it gives an
// equal config. REQUIRES: config.asked is not null.
std::string WriteAsked(const ExperimentConfig& config);

// A line of a text in which each field, and each end of a message, has a line of its own, as
// WriteResolved() and WriteAsked() write them.
struct FieldLine {
  enum class Kind : std::uint8_t { kValue, kMessage, kEnd };

  std::string text;  // without the line break
  std::string path;  // as --set takes it, without indices; of kEnd: of the message that ends
  Kind kind = Kind::kValue;
};
std::vector<FieldLine> LinesOf(std::string_view text);
std::string TextOf(const std::vector<FieldLine>& lines);

// Adds "  # comment" to each value for which `comment` returns a text.
void AddComments(const std::function<std::string(std::string_view path)>& comment,
                 std::vector<FieldLine>& lines);

// Drops values that `keeps` denies, and messages without a value that `keeps` denies, too.
void KeepFields(const std::function<bool(std::string_view path)>& keeps,
                std::vector<FieldLine>& lines);

enum class FieldOrigin : std::uint8_t {
  kAsked,     // the file or its changes
  kServer,    // system.server
  kModel,     // the shape of system.model
  kHardware,  // the data sheet of system.hardware
  kDefault,
};

// Where the values of a resolved experiment without replica groups come from.
class FieldOrigins {
 public:
  // REQUIRES: config.asked is not null.
  explicit FieldOrigins(const ExperimentConfig& config);

  [[nodiscard]] FieldOrigin Find(std::string_view path) const;

 private:
  std::shared_ptr<const proto::Experiment> asked_;
  std::shared_ptr<const proto::Experiment> filled_;  // with the defaults of the server
};

}  // namespace twin
