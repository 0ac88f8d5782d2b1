// SPDX-License-Identifier: Apache-2.0
//
// Numbers in YAML, with the range that the schema of a description allows for
// each. The context of the parser is a YamlReader.
#pragma once

#include "fcdp/Cluster/Spread.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/YAMLTraits.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

namespace fcdp {

/// State that the parser's callbacks share.
struct YamlReader {
  llvm::StringRef file;
  /// The message of the last number that was refused. The parser keeps a
  /// reference to it.
  std::string message;
  /// The first error, with file and line.
  std::string complaint;
  /// Whether the description builds on another one, whose values apply where it
  /// gives none.
  bool hasBase = false;
};

// Numbers with the range that the schema allows for each.
struct Positive {
  double value;
  static constexpr char kExpected[] = "a positive number";
  bool isGood() const { return value > 0; }
};
struct NotNegative {
  double value;
  static constexpr char kExpected[] = "0 or a positive number";
  bool isGood() const { return value >= 0; }
};
struct Share {
  double value;
  static constexpr char kExpected[] = "a number above 0 and at most 1";
  bool isGood() const { return value > 0 && value <= 1; }
};
struct PartialShare {
  double value;
  static constexpr char kExpected[] = "a number of at least 0 and below 1";
  bool isGood() const { return value >= 0 && value < 1; }
};
/// The standard deviation of a logarithm, or a skew.
struct FromZeroToTwo {
  double value;
  static constexpr char kExpected[] = "a number from 0 to 2";
  bool isGood() const { return value >= 0 && value <= kMaxSpread; }
};
/// Doubles represent whole numbers exactly below 2^53.
struct Count {
  double value;
  static constexpr char kExpected[] = "a positive whole number below 2^53";
  bool isGood() const {
    return value > 0 && value < 0x1p53 && value == std::floor(value);
  }
};

struct ByteCount {
  double value;
  static constexpr char kExpected[] = "0 or a positive whole number below 2^53";
  bool isGood() const {
    return value >= 0 && value < 0x1p53 && value == std::floor(value);
  }
};

template <typename Number>
struct NumberTraits {
  static void output(const Number &number, void *, llvm::raw_ostream &stream) {
    // 17 significant digits distinguish all doubles.
    stream << llvm::format("%.17g", number.value);
  }
  static llvm::StringRef input(llvm::StringRef scalar, void *context,
                               Number &number) {
    if (!scalar.getAsDouble(number.value) && std::isfinite(number.value) &&
        number.isGood())
      return {};
    number.value = 0; // a refused value is converted too
    auto *reader = static_cast<YamlReader *>(context);
    reader->message =
        llvm::formatv("expected {0}, got '{1}'", &Number::kExpected[0], scalar);
    return reader->message;
  }
  static llvm::yaml::QuotingType mustQuote(llvm::StringRef) {
    return llvm::yaml::QuotingType::None;
  }
};

/// A row of a table.
using NumberRow = std::vector<Positive>;
using NumberRows = std::vector<NumberRow>;

} // namespace fcdp

namespace llvm::yaml {
template <>
struct ScalarTraits<fcdp::Positive> : fcdp::NumberTraits<fcdp::Positive> {};
template <>
struct ScalarTraits<fcdp::NotNegative> : fcdp::NumberTraits<fcdp::NotNegative> {
};
template <>
struct ScalarTraits<fcdp::Share> : fcdp::NumberTraits<fcdp::Share> {};
template <>
struct ScalarTraits<fcdp::PartialShare>
    : fcdp::NumberTraits<fcdp::PartialShare> {};
template <>
struct ScalarTraits<fcdp::Count> : fcdp::NumberTraits<fcdp::Count> {};
template <>
struct ScalarTraits<fcdp::FromZeroToTwo>
    : fcdp::NumberTraits<fcdp::FromZeroToTwo> {};
template <>
struct ScalarTraits<fcdp::ByteCount> : fcdp::NumberTraits<fcdp::ByteCount> {};
} // namespace llvm::yaml

namespace fcdp {
/// A list in YAML as a vector.
template <typename List>
struct ListTraits {
  static size_t size(llvm::yaml::IO &, List &list) { return list.size(); }
  static typename List::value_type &element(llvm::yaml::IO &, List &list,
                                            size_t index) {
    if (index >= list.size())
      list.resize(index + 1);
    return list[index];
  }
};

/// Reads a key that is required unless the description has a base.
template <typename T>
void mapUnlessInherited(llvm::yaml::IO &io, const char *key, T &field) {
  if (static_cast<YamlReader *>(io.getContext())->hasBase)
    io.mapOptional(key, field);
  else
    io.mapRequired(key, field);
}

/// Reads a list, which replaces the whole list of a base.
template <typename List>
void mapList(llvm::yaml::IO &io, const char *key, List &field) {
  std::optional<List> list;
  io.mapOptional(key, list);
  if (list)
    field = std::move(*list);
}

template <typename Number, typename T>
void mapNumber(llvm::yaml::IO &io, const char *key, T &field) {
  Number number{static_cast<double>(field)};
  mapUnlessInherited(io, key, number);
  field = static_cast<T>(number.value);
}

/// Reads a number in an element of a list. Such a number inherits nothing from
/// a base.
template <typename Number, typename T>
void mapOwnNumber(llvm::yaml::IO &io, const char *key, T &field) {
  Number number{static_cast<double>(field)};
  io.mapRequired(key, number);
  field = static_cast<T>(number.value);
}

/// Leaves `field` as it is if the description does not have it.
template <typename Number>
void mapNumber(llvm::yaml::IO &io, const char *key,
               std::optional<double> &field) {
  std::optional<Number> number;
  if (field)
    number = Number{*field};
  io.mapOptional(key, number);
  if (number)
    field = number->value;
}

/// Leaves `field` as it is if the description does not have it.
template <typename Number, typename T>
void mapWithDefault(llvm::yaml::IO &io, const char *key, T &field) {
  std::optional<double> given = static_cast<double>(field);
  mapNumber<Number>(io, key, given);
  if (given)
    field = static_cast<T>(*given);
}
} // namespace fcdp

namespace llvm::yaml {
template <>
struct SequenceTraits<fcdp::NumberRow> : fcdp::ListTraits<fcdp::NumberRow> {
  static const bool flow = true;
};
template <>
struct SequenceTraits<fcdp::NumberRows> : fcdp::ListTraits<fcdp::NumberRows> {};
} // namespace llvm::yaml
