// SPDX-License-Identifier: Apache-2.0
#include "inputs/NpyHeader.h"

#include <array>
#include <cstring>
#include <regex>
#include <stdexcept>

namespace fcdp::run {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
/// Magic and version; the length of the header follows.
constexpr size_t kPrefix = 8;

std::optional<DType> dtypeOf(const std::string &descr) {
  constexpr std::array<std::pair<const char *, DType>, 11> known = {
      {{"<f2", DType::F16},
       {"<f4", DType::F32},
       {"<f8", DType::F64},
       {"|i1", DType::I8},
       {"<i2", DType::I16},
       {"<i4", DType::I32},
       {"<i8", DType::I64},
       {"|u1", DType::U8},
       {"|b1", DType::Bool},
       // The package ml_dtypes saves bfloat16 in this way.
       {"<V2", DType::BF16},
       {"|V2", DType::BF16}}};
  for (const auto &[text, type] : known)
    if (descr == text)
      return type;
  return std::nullopt;
}

/// The text of the Python dictionary, and where the data begins.
std::string headerText(std::span<const std::byte> file, size_t &dataOffset) {
  std::string_view bytes(reinterpret_cast<const char *>(file.data()),
                         file.size());
  if (bytes.size() < kPrefix + 4 || !bytes.starts_with(kMagic))
    throw std::runtime_error("expected a .npy file, or FILE:u16, FILE:i32 or "
                             "FILE:i64 for raw tokens, got another file");
  int version = static_cast<unsigned char>(bytes[6]);
  if (version < 1 || version > 3)
    throw std::runtime_error("expected .npy version 1, 2 or 3, got " +
                             std::to_string(version));
  size_t lengthBytes = version == 1 ? 2 : 4;
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + kPrefix, lengthBytes);
  dataOffset = kPrefix + lengthBytes + length;
  if (dataOffset > bytes.size())
    throw std::runtime_error("expected a header of " + std::to_string(length) +
                             " bytes, got the end of the file; is it "
                             "truncated?");
  constexpr uint32_t mostBytes = 65536;
  if (length > mostBytes)
    throw std::runtime_error("expected a header of at most 65536 bytes, got " +
                             std::to_string(length));
  return std::string(bytes.substr(kPrefix + lengthBytes, length));
}

std::string match(const std::string &text, const char *form, const char *what) {
  std::smatch parts;
  if (!std::regex_search(text, parts, std::regex(form)))
    throw std::runtime_error(std::string("the .npy header has no '") + what +
                             "' that fcdp-run understands");
  return parts[1];
}

Shape parseShape(const std::string &list) {
  static const std::regex item("[0-9]+");
  constexpr int64_t greatest = int64_t(1) << 40;
  Shape shape;
  __int128 elements = 1;
  for (std::sregex_iterator it(list.begin(), list.end(), item), end; it != end;
       ++it) {
    if (it->length() > 13)
      throw std::runtime_error("the .npy header's shape is too large");
    shape.push_back(std::stoll(it->str()));
    elements *= shape.back();
    if (elements > greatest)
      throw std::runtime_error("the .npy header's shape is too large");
  }
  return shape;
}

} // namespace

NpyHeader parseNpyHeader(std::span<const std::byte> file) {
  NpyHeader header;
  std::string text = headerText(file, header.dataOffset);
  header.descr = match(text, "'descr'\\s*:\\s*'([^']*)'", "descr");
  header.dtype = dtypeOf(header.descr);
  header.fortranOrder = match(text, "'fortran_order'\\s*:\\s*(True|False)",
                              "fortran_order") == "True";
  header.shape =
      parseShape(match(text, "'shape'\\s*:\\s*\\(([0-9, ]*)\\)", "shape"));
  return header;
}

} // namespace fcdp::run
