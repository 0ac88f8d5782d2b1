// SPDX-License-Identifier: Apache-2.0
//
// A JSON document as read-only values in one arena. llvm::json keeps a hash
// table of 64 slots (4 KiB) for each object, and a step of 30,000 nodes has
// over a million objects; it also calls itself for each level of a text that
// may be nested as deep as it is long.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Allocator.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace fcdp {

struct JsonMember;

/// A value of a document; it borrows from the document and its text.
class Json {
public:
  enum class Kind : uint8_t {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object
  };

  Json() : Json(Kind::Null, 0) {}
  static Json boolean(bool value);
  static Json integer(int64_t value);
  static Json number(double value);
  static Json string(llvm::StringRef value);
  static Json array(llvm::ArrayRef<Json> values);
  static Json object(llvm::ArrayRef<JsonMember> members);

  Kind getKind() const { return kind; }
  bool isNull() const { return kind == Kind::Null; }
  bool isArray() const { return kind == Kind::Array; }
  bool isObject() const { return kind == Kind::Object; }

  std::optional<bool> asBoolean() const;
  /// Of an integer that fits 64 bits.
  std::optional<int64_t> asInteger() const;
  /// Of any number.
  std::optional<double> asNumber() const;
  std::optional<llvm::StringRef> asString() const;
  /// Empty if this is no array.
  llvm::ArrayRef<Json> elements() const;
  /// Empty if this is no object. In the text's order.
  llvm::ArrayRef<JsonMember> members() const;

  /// The member of that name, or a null value. Searches in order: for objects
  /// with few members.
  const Json &operator[](llvm::StringRef name) const;

  /// Where the value begins, in bytes from the text's beginning.
  size_t getPosition() const { return position; }
  void setPosition(size_t bytes) { position = bytes; }

private:
  Json(Kind kind, size_t size) : kind(kind), size(size), position(0) {}

  Kind kind : 4;
  uint64_t size : 30;
  uint64_t position : 30;
  union {
    bool truth;
    int64_t whole;
    double real;
    const char *text = nullptr;
    const Json *values;
    const JsonMember *pairs;
  };
};

struct JsonMember {
  llvm::StringRef name;
  Json value;
};

/// What is wrong with a text: "line 2, column 7: expected ',' or ']'".
class JsonError : public llvm::ErrorInfo<JsonError> {
public:
  JsonError(unsigned line, unsigned column, llvm::StringRef message)
      : line(line), column(column), message(message) {}

  unsigned getLine() const { return line; }
  llvm::StringRef getMessage() const { return message; }
  void log(llvm::raw_ostream &stream) const override;
  std::error_code convertToErrorCode() const override;

  static char ID;

private:
  unsigned line, column;
  std::string message;
};

/// Parses `text` (less than 1 GiB), which must outlive the value, into `arena`.
/// Errors are of the type JsonError.
llvm::Expected<Json> parseJson(llvm::StringRef text,
                               llvm::BumpPtrAllocator &arena);

} // namespace fcdp
