// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the readers of messages between ranks:
//   build-asan/bin/fcdp-fuzz-message NEW test/fuzz/corpus/message
//
// Byte 0 of an input says what is read. A coded or quantised message begins as
// a good one; the rest of the input replaces bytes of it and cuts it, with the
// lengths of its header as they must be. Or it is coded itself, and must come
// back; or it is a stream of messages to the store of a job. Checked, besides
// the sanitizers: what is refused is refused with a CodeError, and what is
// taken has the values that were coded.

#include "codec/MessageCodec.h"
#include "codec/Quantizer.h"
#include "store/Secret.h"
#include "store/StoreMessage.h"

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>
#include <utility>

using namespace fcdp;

namespace {

using Bytes = std::vector<std::byte>;

[[noreturn]] void die(const char *what) {
  std::cerr << what << '\n';
  std::abort();
}

/// Takes numbers from the begin of an input, and zeros after its end.
class Reader {
public:
  Reader(const uint8_t *data, size_t size) : data(data), left(size) {}
  size_t take(size_t bytes) {
    size_t number = 0;
    for (size_t i = 0; i < bytes; ++i, left -= left != 0)
      number |= size_t(left ? *data++ : 0) << (8 * i);
    return number;
  }
  bool isAtEnd() const { return left == 0; }
  Bytes rest() {
    auto *begin = reinterpret_cast<const std::byte *>(data);
    return {begin, begin + std::exchange(left, 0)};
  }

private:
  const uint8_t *data;
  size_t left;
};

/// Values near 1, of 16 or 32 bits, of which one in `step` differs from
/// `references`.
Bytes makeValues(size_t bytes, size_t width) {
  std::mt19937 random(3);
  Bytes values(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    bool isTop = i % width == width - 1;
    values[i] = std::byte(isTop ? 0x3f : random() % 8);
  }
  return values;
}

Bytes moved(Bytes values, size_t step) {
  for (size_t i = 0; i < values.size(); i += 2 * step)
    values[i] ^= std::byte(1);
  return values;
}

/// Replaces bytes as the input says: places as 24 bits, and values.
void damage(Reader &input, Bytes &message) {
  while (!input.isAtEnd()) {
    size_t place = input.take(3);
    auto value = std::byte(input.take(1));
    // Small places are counted from the end.
    if (!message.empty())
      message[place < 64 ? message.size() - 1 - place % message.size()
                         : (place - 64) % message.size()] = value;
  }
}

/// Offset of the number of bytes of the whole message in its header.
constexpr size_t kLengthAt = 24;

MessageCodec &codec() {
  static MessageCodec codec;
  return codec;
}

MessageCoding codingOf(size_t bits) {
  const bool isDelta = bits & 1;
  const DType types[] = {DType::BF16, DType::F16, DType::F32};
  return {isDelta ? WireCode::Delta : WireCode::Coded,
          types[(bits >> 1) % (isDelta ? 2 : 3)],
          uint64_t(isDelta ? (bits >> 3) & 1 : 0)};
}

void readDamaged(Reader &input) {
  const MessageCoding coding = codingOf(input.take(1));
  const size_t width = byteSize(coding.type);
  // Up to two chunks, and sizes around those that are put in order of classes.
  const size_t count = input.take(3) % (kCodedChunkBytes / width + 5000) + 1;
  const size_t cut = input.take(2);
  Bytes references = makeValues(count * width, width),
        values = moved(references, input.take(1) + 1),
        message(codedCapacity(values.size()));
  message.resize(codec().encode(coding, values, references.data(), message));
  damage(input, message);
  // Cut in its last chunk, as a header that is damaged alone never is.
  message.resize(message.size() - std::min(cut, message.size()));
  if (message.size() >= kMessageHeaderBytes) {
    uint64_t bytes = message.size();
    std::memcpy(message.data() + kLengthAt, &bytes, sizeof(bytes));
  }
  message.shrink_to_fit();
  Bytes back(values.size());
  try {
    codec().decode(coding, message, references.data(), back);
  } catch (const CodeError &) {
    return;
  }
  if (back != values)
    die("a damaged message was taken for other values");
}

void readQuantized(Reader &input) {
  const size_t bits = input.take(1);
  const Quantization how{bits & 1 ? WireCode::Int8 : WireCode::Int4,
                         bits & 2 ? DType::F32 : DType::BF16};
  const size_t width = byteSize(how.type), count = input.take(2) % 3000 + 1;
  const size_t cut = input.take(2);
  Bytes values = makeValues(count * width, width),
        message(quantizedBytes(formatOf(how.code), count));
  std::vector<float> residual(count);
  quantize(how, values, residual, message);
  damage(input, message);
  message.resize(message.size() - std::min(cut, message.size()));
  message.shrink_to_fit();
  try {
    dequantize(how, message, values);
  } catch (const CodeError &) {
  }
}

void codeAndBack(Reader &input) {
  const MessageCoding coding = codingOf(input.take(1));
  const size_t width = byteSize(coding.type), repeats = input.take(1) % 64 + 1;
  Bytes values, some = input.rest();
  some.resize(some.size() / width * width);
  if (some.empty())
    return;
  for (size_t i = 0; i < repeats; ++i)
    values.insert(values.end(), some.begin(), some.end());
  Bytes references = makeValues(values.size(), width),
        message(codedCapacity(values.size())), back(values.size());
  message.resize(codec().encode(coding, values, references.data(), message));
  message.shrink_to_fit();
  codec().decode(coding, message, references.data(), back);
  if (back != values)
    die("values do not come back");
}

void readStore(Reader &input) {
  StoreMessageReader reader;
  Bytes bytes = input.rest();
  // In parts, as connections give them.
  constexpr size_t part = 5;
  try {
    for (size_t at = 0; at < bytes.size(); at += part) {
      reader.add(reinterpret_cast<const char *>(bytes.data()) + at,
                 std::min(part, bytes.size() - at));
      while (auto message = reader.next(kMostUnproved))
        if (encode(*message).size() > kMostUnproved + sizeof(uint32_t))
          die("a message is longer than it may be");
    }
  } catch (const std::runtime_error &) {
  }
}

} // namespace

/// Proofs are made from messages that have been read, which is not done here.
std::string fcdp::proofOf(const std::string &,
                          const std::vector<std::string> &) {
  die("a proof was asked for");
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Reader input(data, size);
  switch (input.take(1) % 4) {
  case 0:
    readDamaged(input);
    break;
  case 1:
    readQuantized(input);
    break;
  case 2:
    codeAndBack(input);
    break;
  case 3:
    readStore(input);
  }
  return 0;
}
