// SPDX-License-Identifier: Apache-2.0
//
// The source of the rows of one input.
#pragma once

#include "policy/Padding.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fcdp::run {

/// A source of rows. Immutable once made, hence thread-safe. Functions throw
/// std::runtime_error that names file and input.
class InputSource {
public:
  virtual ~InputSource() = default;

  /// Returns the number of rows, or none if it is unlimited.
  virtual std::optional<int64_t> rows() const = 0;
  /// Returns whether rows are windows of a longer file.
  virtual bool isWindowed() const = 0;
  /// Returns the shape of rows before they are padded to that of the input.
  virtual const Shape &rowShape() const = 0;
  /// Writes a row, of the input's shape and type. Throws at a value that the
  /// input may not have.
  virtual void read(int64_t row, std::span<std::byte> out) const = 0;
  /// Checks all values of a file, unless the file is too large. Throws at the
  /// first value that the input may not have.
  virtual void checkValues() const = 0;
};

bool isRandom(const std::string &spec);

/// An element of a list of files.
struct InputFile {
  std::string path;
  /// The type of tokens, "u16+1", or empty for an array.
  std::string tokens;
};
InputFile fileOf(const std::string &spec);

/// Splits a list "FILE,FILE". A comma separates files if it follows a type of
/// tokens or ".npy"; others are part of a name.
std::vector<std::string> splitFiles(const std::string &spec);

/// Returns the path in one element of such a list.
std::string pathOf(const std::string &file);

/// Opens `random:SEED[:LIMIT]`, `FILE:u16|i32|i64[+k]` or `FILE` (.npy). With
/// `pad`, arrays in files may have smaller rows than the input, which are
/// padded.
std::unique_ptr<InputSource> openInput(const std::string &spec,
                                       const plan::InputT &input,
                                       const PadElement *pad = nullptr);

std::unique_ptr<InputSource> openNpy(const std::string &path,
                                     const plan::InputT &input,
                                     const PadElement *pad);
std::unique_ptr<InputSource> openTokens(const std::string &path, DType stored,
                                        bool isUnsigned16, int64_t shift,
                                        const plan::InputT &input);
std::unique_ptr<InputSource> makeRandom(uint64_t seed,
                                        std::optional<int64_t> limit,
                                        const plan::InputT &input);

/// The size of the largest file whose values are all checked before the first
/// step, in bytes.
inline constexpr size_t kMostCheckedBytes = size_t(1) << 30;

bool isInteger(DType type);

/// Returns "'tokens.bin' for input 'ids'", with which messages begin.
std::string describe(const std::string &file, const plan::InputT &input);

/// Throws if the input may not have this value.
void checkValue(int64_t value, int64_t position, const std::string &file,
                const plan::InputT &input);

} // namespace fcdp::run
