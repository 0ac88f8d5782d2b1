// SPDX-License-Identifier: Apache-2.0
//
// Codes floating-point values in messages without loss. A message has a header
// and chunks. A chunk is coded, or stored as it is if its code would not be
// smaller.
#pragma once

#include "codec/ClassOrder.h"
#include "codec/EntropyCoder.h"
#include "core/Backend.h"
#include "core/MessageSpec.h"

#include <stdexcept>
#include <vector>

namespace fcdp {

/// A message that does not match the expected one: damaged, or coded with
/// another reference. The text says what was expected and found.
class CodeError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// The coding of a message, which both sides know.
struct MessageCoding {
  /// One of Delta and Coded.
  WireCode code;
  /// The type of the values. Delta is for bf16 and f16, Coded also for f32.
  DType type;
  /// The number of gathers before this one. The last of them gave the
  /// references. If it is 0, there are no references, and no chunk is coded.
  uint64_t generation = 0;
};

/// Codes and decodes messages. The constructor allocates all memory. One thread
/// at a time may use it.
class MessageCodec {
public:
  /// Throws std::bad_alloc.
  MessageCodec();

  /// Codes `values` into `message`, which must have room for codedCapacity
  /// bytes, and returns the message's bytes. `references` has as many bytes as
  /// `values`. It is read only if differences are coded and the generation is
  /// not 0.
  size_t encode(const MessageCoding &coding, std::span<const std::byte> values,
                const std::byte *references, std::span<std::byte> message);

  /// Decodes the output of `encode`. Bytes of `message` after the code are not
  /// read. `values` may be `references`. Throws CodeError if the message has
  /// another coding or generation, is damaged, or was coded with other
  /// references. Part of `values` may have been written then.
  void decode(const MessageCoding &coding, std::span<const std::byte> message,
              const std::byte *references, std::span<std::byte> values);

private:
  size_t encodeChunk(const MessageCoding &coding,
                     std::span<const std::byte> values,
                     const std::byte *references, std::byte *out);
  size_t decodeChunk(const MessageCoding &coding,
                     std::span<const std::byte> chunk,
                     const std::byte *references, std::span<std::byte> values);
  size_t encodePlane(std::span<const std::byte> plane,
                     std::span<std::byte> out);
  bool decodePlane(std::span<const std::byte> code, std::span<std::byte> plane);
  uint32_t encodeDifferences(DType type, const std::byte *references,
                             size_t count, std::span<std::byte> out);
  bool decodeDifferences(DType type, std::span<const std::byte> code,
                         const std::byte *references, size_t count);

  EntropyCoder coder;
  ClassOrder order;
  /// The planes of a chunk: the one that is always coded, and the others.
  std::vector<std::byte> high, low;
  /// The class of each value, and the low plane sorted by class.
  std::vector<std::byte> classes, sorted;
};

} // namespace fcdp
