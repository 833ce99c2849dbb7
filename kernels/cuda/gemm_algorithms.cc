#include "kernels/cuda/gemm_algorithms.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "core/files/output_file.h"
#include "core/hash.h"
#include "core/input_error.h"
#include "kernels/cuda/flashinfer/planned_attention.h"

namespace twin::kernels::cuda {
namespace {

constexpr std::string_view kHeading = "# twinserve GEMM algorithms, format 3";
// The heading of files without times of attention.
constexpr std::string_view kProductsHeading = "# twinserve GEMM algorithms, format 2";
// The heading of files whose algorithms may add parts of a sum in the format of the result; they
// are tuned anew.
constexpr std::string_view kOldHeading = "# twinserve GEMM algorithms, format 1";
constexpr std::string_view kAdvice = "; remove the file and tune again";
constexpr std::string_view kAttention = "attention";  // stands in the place of a format
constexpr std::string_view kNothing = "-";
constexpr std::size_t kFields = 10;
constexpr std::size_t kWordDigits = 16;

[[noreturn]] void Refuse(const std::string& where, const std::string& what) {
  throw InputError(InputError::Kind::kData, where, what + std::string(kAdvice));
}

std::vector<std::string_view> Split(std::string_view line) {
  std::vector<std::string_view> fields;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find('\t', begin), line.size());
    fields.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return fields;
}

template <class Number, class... Base>
bool ParseNumber(std::string_view text, Number& number, Base... base) {
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number, base...);
  return result.ec == std::errc() && result.ptr == end;
}

void AppendHex(std::uint64_t word, std::string& text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(word >> shift) & 15U];
}

std::string Hashed(const std::string& line) {
  std::string text = line + '\t';
  AppendHex(HashText(line), text);
  return text;
}

bool ParseBlob(std::string_view text, GemmAlgorithm& algorithm) {
  algorithm.skinny = text == "skinny";
  if (algorithm.skinny) return true;
  if (text.size() != algorithm.blob.size() * kWordDigits) return false;
  for (std::size_t i = 0; i < algorithm.blob.size(); ++i) {
    if (!ParseNumber(text.substr(i * kWordDigits, kWordDigits), algorithm.blob[i], 16)) {
      return false;
    }
  }
  return true;
}

bool ParseFormat(std::string_view text, DType& dtype) {
  const auto parsed = ParseDType(text);
  if (parsed) dtype = *parsed;
  return parsed.has_value();
}

// The format of a product's inputs, and how it is summed.
constexpr std::string_view kFastFp8 = "fp8_fast_accumulation";

std::string_view InputText(const DeviceGemmShape& shape) {
  return shape.accumulation == Fp8Accumulation::kFast ? kFastFp8 : Name(shape.input_dtype);
}

bool ParseInput(std::string_view text, DeviceGemmShape& shape) {
  if (text != kFastFp8) return ParseFormat(text, shape.input_dtype);
  shape.input_dtype = DType::kFp8;
  shape.accumulation = Fp8Accumulation::kFast;
  return true;
}

std::string Line(const std::string& device, const std::string& library,
                 const DeviceGemmShape& shape, const GemmAlgorithm& algorithm) {
  std::ostringstream text;
  text.precision(9);
  text << device << '\t' << library << '\t' << InputText(shape) << '\t' << Name(shape.output_dtype)
       << '\t' << shape.tokens << '\t' << shape.outputs << '\t' << shape.inputs << '\t';
  std::string blob = algorithm.skinny ? "skinny" : "";
  if (!algorithm.skinny) {
    for (const std::uint64_t word : algorithm.blob) AppendHex(word, blob);
  }
  text << blob << '\t' << algorithm.microseconds;
  return Hashed(text.str());
}

std::string Line(const std::string& device, const std::string& library, const DecodeCase& each,
                 double microseconds) {
  std::ostringstream text;
  text.precision(9);
  text << device << '\t' << library << '\t' << kAttention << '\t' << each.shape << '\t'
       << each.decodes << '\t' << each.length << '\t' << NameOf(each.way) << '\t' << kNothing
       << '\t' << microseconds;
  return Hashed(text.str());
}

}  // namespace

GemmAlgorithmFile::GemmAlgorithmFile(std::filesystem::path path, std::string device,
                                     std::string library)
    : path_(std::move(path)), device_(std::move(device)), library_(std::move(library)) {
  std::error_code error;
  if (!path_.empty() && std::filesystem::exists(path_, error)) Read();
}

void GemmAlgorithmFile::Read() {
  std::ifstream file(path_);
  std::string line;
  if (!std::getline(file, line)) Refuse(path_.string(), "cannot be read, or is empty");
  if (line == kOldHeading) return;
  if (line != kHeading && line != kProductsHeading) {
    Refuse(path_.string() + ":1", "must be '" + std::string(kHeading) + "'");
  }
  const bool has_attention = line == kHeading;
  for (int number = 2; std::getline(file, line); ++number) {
    ReadLine(line, has_attention, path_.string() + ":" + std::to_string(number));
  }
  if (file.bad()) Refuse(path_.string(), "cannot be read to its end");
}

void GemmAlgorithmFile::ReadLine(std::string_view line, bool has_attention,
                                 const std::string& where) {
  const std::size_t hash = line.rfind('\t');
  if (hash == std::string_view::npos || Hashed(std::string(line.substr(0, hash))) != line) {
    Refuse(where, "is damaged: its hash does not fit");
  }
  const std::vector<std::string_view> fields = Split(line);
  if (fields.size() != kFields) {
    Refuse(where, "has " + std::to_string(fields.size()) + " fields, must have " +
                      std::to_string(kFields));
  }
  if (has_attention && fields[2] == kAttention) return ReadDecodes(line, fields, where);
  DeviceGemmShape shape;
  GemmAlgorithm algorithm;
  const bool fits = ParseInput(fields[2], shape) && ParseFormat(fields[3], shape.output_dtype) &&
                    ParseNumber(fields[4], shape.tokens) && ParseNumber(fields[5], shape.outputs) &&
                    ParseNumber(fields[6], shape.inputs) && ParseBlob(fields[7], algorithm) &&
                    ParseNumber(fields[8], algorithm.microseconds);
  if (!fits) Refuse(where, "is not a product and its algorithm");
  if (fields[0] != device_ || fields[1] != library_) {
    other_lines_.emplace_back(line);
    return;
  }
  algorithms_[shape] = algorithm;
}

void GemmAlgorithmFile::ReadDecodes(std::string_view line,
                                    const std::vector<std::string_view>& fields,
                                    const std::string& where) {
  DecodeCase each{.shape = std::string(fields[3]), .decodes = 0, .length = 0, .way = {}};
  double microseconds = 0;
  const std::optional<DecodeWay> way = ParseDecodeWay(fields[6]);
  const bool fits = ParseNumber(fields[4], each.decodes) && ParseNumber(fields[5], each.length) &&
                    fields[7] == kNothing && ParseNumber(fields[8], microseconds);
  if (!fits) Refuse(where, "is not a time of attention");
  // An unknown way comes from another version of this program.
  if (!way || fields[0] != device_ || fields[1] != BuiltWithFlashInfer().version) {
    other_lines_.emplace_back(line);
    return;
  }
  each.way = *way;
  decodes_[each] = microseconds;
}

const GemmAlgorithm* GemmAlgorithmFile::Find(const DeviceGemmShape& shape) const {
  const auto found = algorithms_.find(shape);
  return found != algorithms_.end() ? &found->second : nullptr;
}

void GemmAlgorithmFile::Set(const DeviceGemmShape& shape, const GemmAlgorithm& algorithm) {
  algorithms_[shape] = algorithm;
}

std::string GemmAlgorithmFile::Text() const {
  std::string text(kHeading);
  text += '\n';
  for (const std::string& line : other_lines_) text += line + '\n';
  for (const auto& [shape, algorithm] : algorithms_) {
    text += Line(device_, library_, shape, algorithm) + '\n';
  }
  for (const auto& [each, microseconds] : decodes_) {
    text += Line(device_, BuiltWithFlashInfer().version, each, microseconds) + '\n';
  }
  return text;
}

void GemmAlgorithmFile::Save() const {
  if (path_.empty()) return;
  std::error_code ignored;  // writing the file reports the error
  if (path_.has_parent_path()) std::filesystem::create_directories(path_.parent_path(), ignored);
  WriteFile(path_, Text());
}

}  // namespace twin::kernels::cuda
