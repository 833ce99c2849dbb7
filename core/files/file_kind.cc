#include "core/files/file_kind.h"

#include <cstddef>

namespace twin {
namespace {

using std::string_view_literals::operator""sv;

struct Kind {
  std::string_view magic;
  std::string_view name;
};

// The file formats' specifications name these bytes.
constexpr Kind kKinds[] = {
    {"PAR1"sv, "a Parquet file"},
    {"ARROW1"sv, "an Arrow (Feather) file"},
    {"FEA1"sv, "a Feather file"},
    {"ORC"sv, "an ORC file"},
    {"Obj\1"sv, "an Avro file"},
    {"PK\3\4"sv, "a zip file (Excel workbooks are such files)"},
    {"\xD0\xCF\x11\xE0"sv, "an Excel workbook of the old kind"},
    {"\x28\xB5\x2F\xFD"sv, "a zstd file"},
    {"BZh"sv, "a bzip2 file"},
    {"\xFD\x37zXZ"sv, "an xz file"},
    {"\x04\x22\x4D\x18"sv, "an lz4 file"},
    {"\x93NUMPY"sv, "a NumPy file"},
    {"\x89HDF"sv, "an HDF5 file"},
    {"SQLite format 3"sv, "an SQLite file"},
    {"\x80\4\x95"sv, "a Python pickle"},
    {"\x80\5\x95"sv, "a Python pickle"},
    {"RDX2\n"sv, "an R data file"},
    {"RDX3\n"sv, "an R data file"},
    {"%PDF"sv, "a PDF file"},
    {"<!DOCTYPE"sv, "a web page"},
    {"<!doctype"sv, "a web page"},
    {"<html"sv, "a web page"},
    {"<?xml"sv, "an XML file"},
    {"version https://git-lfs"sv, "a Git LFS pointer instead of its file"},
    {"\xFF\xFE\0\0"sv, "text in UTF-32"},
    {"\0\0\xFE\xFF"sv, "text in UTF-32"},
    {"\xFF\xFE"sv, "text in UTF-16"},
    {"\xFE\xFF"sv, "text in UTF-16"},
};

// ASCII in UTF-16 without a byte order mark: every other byte is 0.
bool AlternatesWithZero(std::string_view text, std::size_t zero) {
  constexpr std::size_t kLook = 8;
  if (text.size() < kLook) return false;
  for (std::size_t i = 0; i < kLook; ++i) {
    if ((text[i] == '\0') != (i % 2 == zero)) return false;
  }
  return true;
}

}  // namespace

std::string_view ForeignKind(std::string_view beginning) {
  for (const Kind& kind : kKinds) {
    if (beginning.starts_with(kind.magic)) return kind.name;
  }
  if (AlternatesWithZero(beginning, 0) || AlternatesWithZero(beginning, 1)) {
    return "text in UTF-16";
  }
  return {};
}

}  // namespace twin
