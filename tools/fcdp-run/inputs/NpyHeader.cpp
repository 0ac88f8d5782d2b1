// SPDX-License-Identifier: Apache-2.0
#include "inputs/NpyHeader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace fcdp::run {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
/// The bytes of magic and version, which precede the length of the header.
constexpr size_t kPrefix = 8;

std::optional<DType> dtypeOf(const std::string &descr) {
  constexpr std::array<std::pair<const char *, DType>, 13> known = {
      {{"<f2", DType::F16},
       {"<f4", DType::F32},
       {"<f8", DType::F64},
       {"|i1", DType::I8},
       {"<i2", DType::I16},
       {"<i4", DType::I32},
       {"<i8", DType::I64},
       {"|u1", DType::U8},
       {"|b1", DType::Bool},
       {"<c8", DType::C64},
       {"<c16", DType::C128},
       // The package ml_dtypes saves bfloat16 in this way.
       {"<V2", DType::BF16},
       {"|V2", DType::BF16}}};
  for (const auto &[text, type] : known)
    if (descr == text)
      return type;
  return std::nullopt;
}

/// Returns the text of the Python dictionary, and sets the offset at which the
/// data begins.
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

[[noreturn]] void refuse(const std::string &key) {
  throw std::runtime_error("the .npy header has no '" + key +
                           "' that fcdp-run understands");
}

/// Returns the text after `'key' :` in the dictionary.
std::string_view valueOf(std::string_view text, std::string_view key) {
  const std::string quoted = "'" + std::string(key) + "'";
  size_t begin = text.find(quoted);
  if (begin == text.npos)
    return {};
  begin = std::min(text.find_first_not_of(" \t\n", begin + quoted.size()),
                   text.size());
  bool isThere = begin < text.size() && text[begin] == ':';
  size_t value =
      isThere ? text.find_first_not_of(" \t\n", begin + 1) : text.npos;
  return value == text.npos ? std::string_view() : text.substr(value);
}

/// Returns the part of a value between two characters, the first of which
/// begins it. `what` is the key.
std::string_view between(std::string_view value, char open, char close,
                         const char *what) {
  size_t end = value.empty() ? value.npos : value.find(close, 1);
  if (end == value.npos || value[0] != open)
    refuse(what);
  return value.substr(1, end - 1);
}

Shape parseShape(std::string_view list) {
  constexpr int64_t greatest = int64_t(1) << 40;
  constexpr std::string_view digits = "0123456789";
  Shape shape;
  __int128 elements = 1;
  if (list.find_first_not_of("0123456789, ") != list.npos)
    refuse("shape");
  for (size_t at = list.find_first_of(digits); at != list.npos;
       at = list.find_first_of(digits, at)) {
    size_t end = std::min(list.find_first_not_of(digits, at), list.size());
    if (end - at > 13)
      throw std::runtime_error("the .npy header's shape is too large");
    shape.push_back(std::stoll(std::string(list.substr(at, end - at))));
    elements *= shape.back();
    if (elements > greatest)
      throw std::runtime_error("the .npy header's shape is too large");
    at = end;
  }
  return shape;
}

} // namespace

NpyHeader parseNpyHeader(std::span<const std::byte> file) {
  NpyHeader header;
  std::string text = headerText(file, header.dataOffset);
  header.descr = between(valueOf(text, "descr"), '\'', '\'', "descr");
  header.dtype = dtypeOf(header.descr);
  std::string_view order = valueOf(text, "fortran_order");
  header.fortranOrder = order.starts_with("True");
  if (!header.fortranOrder && !order.starts_with("False"))
    refuse("fortran_order");
  header.shape = parseShape(between(valueOf(text, "shape"), '(', ')', "shape"));
  return header;
}

} // namespace fcdp::run
