// SPDX-License-Identifier: Apache-2.0
//
// A JSON document as read-only values in one arena. llvm::json is not used for
// two reasons. It keeps a hash table of 64 slots (4 KiB) for each object, and a
// step of 30,000 nodes has over a million objects. It also recurses for each
// level of nesting without a limit.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Allocator.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace fcdp {

struct JsonMember;

/// A value of a document. It refers to memory of the document and its text.
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
  /// Returns the value of an integer that fits 64 bits.
  std::optional<int64_t> asInteger() const;
  /// Returns the value of any number.
  std::optional<double> asNumber() const;
  std::optional<llvm::StringRef> asString() const;
  /// Returns no elements if this is not an array.
  llvm::ArrayRef<Json> elements() const;
  /// Returns the members in the order of the text, and none if this is not an
  /// object.
  llvm::ArrayRef<JsonMember> members() const;

  /// Returns the first member of that name, or a null value. The search is
  /// linear, so it is meant for objects with few members.
  const Json &operator[](llvm::StringRef name) const;

  /// Returns the offset of the value in the text, in bytes.
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

/// A syntax error: "line 2, column 7: expected ',' or ']'".
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

/// Parses `text` (less than 1 GiB) into `arena`. The text must outlive the
/// value. Errors are of the type JsonError.
llvm::Expected<Json> parseJson(llvm::StringRef text,
                               llvm::BumpPtrAllocator &arena);

} // namespace fcdp
