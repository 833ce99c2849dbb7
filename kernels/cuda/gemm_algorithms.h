// File of the fastest measured algorithm for each shape of matrix product.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/decode_times.h"
#include "kernels/cuda/gemm.h"

namespace twin::kernels::cuda {

struct GemmAlgorithm {
  bool skinny = false;                  // SkinnyGemm instead of cuBLASLt
  std::array<std::uint64_t, 8> blob{};  // cublasLtMatmulAlgo_t; zero where skinny
  double microseconds = 0;              // measured time of one product

  bool operator==(const GemmAlgorithm&) const = default;
};

// A text file: a heading, then one line per shape and per time of attention. Fields are separated
// by tabs, and the last field is a hash of the line. Lines of other devices and library versions
// are preserved but not used. A file of format 1 counts as empty; one of format 2 has products
// alone.
class GemmAlgorithmFile {
 public:
  // Reads the file if it exists. An empty path means no file. `device` is a name and `library` a
  // version, both without tabs. If the file is damaged, throws InputError (data) that names the
  // line.
  GemmAlgorithmFile(std::filesystem::path path, std::string device, std::string library);

  // The algorithm of a shape; null if it has none.
  [[nodiscard]] const GemmAlgorithm* Find(const DeviceGemmShape& shape) const;
  void Set(const DeviceGemmShape& shape, const GemmAlgorithm& algorithm);
  // The measured times of the attention of decodes.
  [[nodiscard]] DecodeTimes& decodes() { return decodes_; }
  // Replaces the file atomically. Does nothing without a path. Throws InputError (data) if the file
  // cannot be written.
  void Save() const;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  void Read();
  void ReadLine(std::string_view line, bool has_attention, const std::string& where);
  void ReadDecodes(std::string_view line, const std::vector<std::string_view>& fields,
                   const std::string& where);
  [[nodiscard]] std::string Text() const;

  std::filesystem::path path_;
  std::string device_;
  std::string library_;
  std::vector<std::string> other_lines_;
  std::map<DeviceGemmShape, GemmAlgorithm> algorithms_;
  DecodeTimes decodes_;
};

}  // namespace twin::kernels::cuda
