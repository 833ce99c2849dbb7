// The algorithms that were measured to be the fastest for their products, in a file.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/gemm.h"

namespace twin::kernels::cuda {

struct GemmAlgorithm {
  bool skinny = false;                  // SkinnyGemm, not cuBLASLt
  std::array<std::uint64_t, 8> blob{};  // cublasLtMatmulAlgo_t; zero where skinny
  double microseconds = 0;              // as measured

  bool operator==(const GemmAlgorithm&) const = default;
};

// Text: a heading, then a line for each product, its fields separated by tabs and closed by a hash
// of the line. Lines of other devices and library versions are kept and not used.
class GemmAlgorithmFile {
 public:
  // Reads the file if it is there; an empty path is no file. Throws InputError (data) that names
  // the line if it is damaged. `device` and `library`: a name and a version, without tabs.
  GemmAlgorithmFile(std::filesystem::path path, std::string device, std::string library);

  // Null if there is none.
  [[nodiscard]] const GemmAlgorithm* Find(const GemmShape& shape) const;
  void Set(const GemmShape& shape, const GemmAlgorithm& algorithm);
  // Replaces the file at once or not at all. Does nothing without a path. Throws InputError (data)
  // if it cannot be written.
  void Save() const;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  void Read();
  void ReadLine(std::string_view line, const std::string& where);
  [[nodiscard]] std::string Text() const;

  std::filesystem::path path_;
  std::string device_;
  std::string library_;
  std::vector<std::string> other_lines_;
  std::map<GemmShape, GemmAlgorithm> algorithms_;
};

}  // namespace twin::kernels::cuda
