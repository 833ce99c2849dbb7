// The length windows of ServeGen's clients.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "core/time.h"
#include "traces/workload.h"

namespace twin {

class ServeGenLengths {
 public:
  // Reads the whole file. Throws InputError.
  explicit ServeGenLengths(const std::string& path);

  struct Lengths {
    std::int32_t prompt = 1;
    std::int32_t output = 1;
  };

  [[nodiscard]] bool Has(std::uint32_t client) const { return clients_.contains(client); }
  // The clients that have lengths, in increasing order.
  [[nodiscard]] std::vector<std::uint32_t> clients() const;
  // REQUIRES: Has(client).
  Lengths Draw(std::uint32_t client, Duration at, ServeGenConfig::Dependence dependence,
               Random& random) const;

 private:
  enum Field : std::uint8_t {
    kInput,
    kOutput,
    kText,
    kImageTokens,
    kImageCount,
    kAudioTokens,
    kAudioCount,
    kVideoTokens,
    kVideoCount,
    kFieldCount
  };
  struct Window {
    Duration start{};
    std::vector<std::optional<QuantileDistribution>> fields;
  };
  static std::optional<Field> FieldNamed(std::string_view name);
  void CheckComplete(const std::string& path) const;

  std::map<std::uint32_t, std::vector<Window>> clients_;  // windows by rising start
};

}  // namespace twin
