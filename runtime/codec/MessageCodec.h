// SPDX-License-Identifier: Apache-2.0
//
// Messages of floating-point values that are coded without loss: a header, and
// chunks, each coded or, if its code would not be smaller, as it is.
#pragma once

#include "codec/ClassOrder.h"
#include "codec/EntropyCoder.h"
#include "core/Backend.h"
#include "core/CodedMessage.h"

#include <stdexcept>
#include <vector>

namespace fcdp {

/// A message that is not what was expected: damaged, or coded against another
/// reference. The text says what was expected and found.
class CodeError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// What a message codes, which both sides know.
struct MessageCoding {
  /// Delta or Coded.
  WireCode code;
  /// Of the values. Delta is for bf16 and f16, Coded also for f32.
  DType type;
  /// The number of gathers before this one, of which the last gave the
  /// references. With none there are no references, and no chunk is coded.
  uint64_t generation = 0;
};

/// Codes and decodes messages. All memory is taken by the constructor. One
/// thread at a time may use it.
class MessageCodec {
public:
  /// Throws std::bad_alloc.
  MessageCodec();

  /// Codes `values` into `message`, which has room for codedCapacity bytes, and
  /// returns its bytes. `references` has as many bytes as `values`; it is not
  /// read unless differences are coded and the generation is not 0.
  size_t encode(const MessageCoding &coding, std::span<const std::byte> values,
                const std::byte *references, std::span<std::byte> message);

  /// Decodes what `encode` gave. Bytes of `message` behind the code are not
  /// read. `values` may be `references`. Throws CodeError if the message is not
  /// of this coding, of another generation, is damaged, or was coded against
  /// other references; part of `values` may have been written then.
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
  /// Planes of a chunk: the one that is coded always, and the others.
  std::vector<std::byte> high, low;
  /// The class of each value, and the low plane in their order.
  std::vector<std::byte> classes, sorted;
};

} // namespace fcdp
