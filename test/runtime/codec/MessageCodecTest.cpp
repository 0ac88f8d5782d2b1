// SPDX-License-Identifier: Apache-2.0

#include "codec/MessageCodec.h"

#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace fcdp;

namespace {

using Bytes = std::vector<std::byte>;

/// Random bits: floats of all kinds.
Bytes makeBits(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes bits(bytes);
  for (std::byte &byte : bits)
    byte = std::byte(random());
  return bits;
}

/// The bf16 values of `references`, of which about one in four has moved by a
/// step.
Bytes makeMoved(const Bytes &references, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes values = references;
  for (size_t i = 0; i < values.size(); i += 2)
    if (random() % 4 == 0)
      values[i] ^= std::byte(1);
  return values;
}

/// Gradients in f32 with exponents in a narrow range.
Bytes makeGradients(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1e-3f);
  std::vector<float> values(count);
  for (float &value : values)
    value = normal(random);
  Bytes bytes(count * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

constexpr MessageCoding kDelta{WireCode::Delta, DType::BF16, 7};
constexpr MessageCoding kFirst{WireCode::Delta, DType::BF16, 0};

struct Message {
  Bytes bytes;
  size_t size;
};

Message encode(MessageCodec &codec, const MessageCoding &coding,
               const Bytes &values, const Bytes &references) {
  Message message{Bytes(codedCapacity(values.size())), 0};
  message.size = codec.encode(coding, values, references.data(), message.bytes);
  EXPECT_LE(message.size, message.bytes.size());
  return message;
}

Bytes decode(MessageCodec &codec, const MessageCoding &coding,
             const Message &message, const Bytes &references) {
  Bytes values(references.size());
  codec.decode(coding, message.bytes, references.data(), values);
  return values;
}

std::string failureOf(MessageCodec &codec, const MessageCoding &coding,
                      const Bytes &message, const Bytes &references) {
  Bytes values(references.size());
  try {
    codec.decode(coding, message, references.data(), values);
  } catch (const CodeError &error) {
    return error.what();
  }
  return "";
}

/// Sizes around the size of a chunk and its multiples.
const size_t kSizes[] = {2, 64, 1000, 131070, 131072, 131074, 400000};

} // namespace

TEST(MessageCodec, DifferencesComeBack) {
  MessageCodec codec;
  for (size_t size : kSizes) {
    Bytes references = makeBits(size, 1), values = makeMoved(references, 2);
    Message message = encode(codec, kDelta, values, references);
    EXPECT_EQ(decode(codec, kDelta, message, references), values) << size;
    if (size > 100000) {
      EXPECT_LT(message.size, size / 8);
    }
  }
}

TEST(MessageCodec, ValuesThatHaveNothingInCommonAreSentAsTheyAre) {
  MessageCodec codec;
  for (size_t size : kSizes) {
    Bytes references = makeBits(size, 1), values = makeBits(size, 2);
    Message message = encode(codec, kDelta, values, references);
    EXPECT_EQ(decode(codec, kDelta, message, references), values);
    EXPECT_GE(message.size, size);
  }
}

TEST(MessageCodec, EachChunkIsCodedOrNot) {
  // The first chunk has not changed, the second one is random.
  MessageCodec codec;
  Bytes references = makeBits(2 * kCodedChunkBytes, 1), values = references;
  Bytes other = makeBits(kCodedChunkBytes, 2);
  std::copy(other.begin(), other.end(), values.begin() + kCodedChunkBytes);
  Message message = encode(codec, kDelta, values, references);
  EXPECT_EQ(message.size,
            kMessageHeaderBytes + 2 * kChunkHeaderBytes + kCodedChunkBytes);
  EXPECT_EQ(decode(codec, kDelta, message, references), values);
}

TEST(MessageCodec, TheFirstGatherHasNoReferences) {
  MessageCodec codec;
  Bytes values = makeBits(5000, 1), none(5000);
  Message message{Bytes(codedCapacity(5000)), 0};
  message.size = codec.encode(kFirst, values, nullptr, message.bytes);
  EXPECT_EQ(message.size, kMessageHeaderBytes + kChunkHeaderBytes + 5000);
  Bytes back(5000);
  codec.decode(kFirst, message.bytes, nullptr, back);
  EXPECT_EQ(back, values);
}

TEST(MessageCodec, ExponentsComeBack) {
  MessageCodec codec;
  const MessageCoding coding{WireCode::Coded, DType::F32};
  for (size_t count : {1, 100, 32768, 40000}) {
    Bytes values = makeGradients(count, 3);
    Message message = encode(codec, coding, values, {});
    Bytes back(values.size());
    codec.decode(coding, message.bytes, nullptr, back);
    EXPECT_EQ(back, values);
    if (count > 10000) {
      EXPECT_LT(double(message.size), 0.87 * double(values.size()));
    }
  }
  for (DType type : {DType::BF16, DType::F16}) {
    const MessageCoding narrow{WireCode::Coded, type};
    Bytes values = makeBits(30000, 4), back(30000);
    Message message = encode(codec, narrow, values, {});
    codec.decode(narrow, message.bytes, nullptr, back);
    EXPECT_EQ(back, values);
  }
}

TEST(MessageCodec, RefusesAnotherGeneration) {
  MessageCodec codec;
  Bytes references = makeBits(1000, 1);
  Message message = encode(codec, kDelta, references, references);
  EXPECT_EQ(failureOf(codec, {WireCode::Delta, DType::BF16, 8}, message.bytes,
                      references),
            "expected a message of gather 8, got 7");
}

TEST(MessageCodec, RefusesAnotherReference) {
  MessageCodec codec;
  Bytes references = makeBits(300000, 1), other = references;
  other[200001] ^= std::byte(4);
  Message message = encode(codec, kDelta, makeMoved(references, 2), references);
  EXPECT_NE(failureOf(codec, kDelta, message.bytes, other)
                .find("was coded with other values than the last gathered "
                      "ones"),
            std::string::npos);
}

TEST(MessageCodec, RefusesAnotherKindOfMessage) {
  MessageCodec codec;
  Bytes references = makeBits(1000, 1);
  Message message = encode(codec, kDelta, references, references);
  for (const MessageCoding &other :
       {MessageCoding{WireCode::Coded, DType::BF16, 7},
        MessageCoding{WireCode::Delta, DType::F16, 7}})
    EXPECT_NE(failureOf(codec, other, message.bytes, references)
                  .find("expected a coded message for 1000 bytes"),
              std::string::npos);
  EXPECT_NE(failureOf(codec, kDelta, message.bytes, makeBits(1002, 1)), "");
  EXPECT_NE(failureOf(codec, kDelta, Bytes(10), references), "");
}

class DamagedMessage : public ::testing::TestWithParam<size_t> {};

// In messages of the greater size, bytes are in the order of classes.
INSTANTIATE_TEST_SUITE_P(Sizes, DamagedMessage, ::testing::Values(3000, 40000));

TEST_P(DamagedMessage, IsNeverTakenForValues) {
  // A flipped bit of a header, a code or a checksum is found, or it changes
  // nothing: some bytes of the header are not used.
  MessageCodec codec;
  Bytes references = makeBits(GetParam(), 1), values = makeMoved(references, 2);
  const Message message = encode(codec, kDelta, values, references);
  std::mt19937 random(5);
  size_t found = 0;
  for (int i = 0; i < 2000; ++i) {
    Bytes damaged = message.bytes;
    damaged[random() % message.size] ^= std::byte(1 << random() % 8);
    Bytes back(values.size());
    try {
      codec.decode(kDelta, damaged, references.data(), back);
      EXPECT_EQ(back, values);
    } catch (const CodeError &) {
      ++found;
    }
  }
  EXPECT_GT(found, 1700u);
}

TEST_P(DamagedMessage, IsRefusedIfItIsCutShort) {
  MessageCodec codec;
  Bytes references = makeBits(GetParam(), 1);
  Message message = encode(codec, kDelta, makeMoved(references, 2), references);
  for (size_t size = 0; size < message.size; size += 7) {
    Bytes cut(message.bytes.begin(), message.bytes.begin() + long(size));
    EXPECT_NE(failureOf(codec, kDelta, cut, references), "") << size;
  }
}

/// A message whose header has the length that it has been cut to.
Bytes cutTo(const Message &message, uint64_t size) {
  constexpr size_t lengthAt = 24;
  Bytes cut(message.bytes.begin(), message.bytes.begin() + long(size));
  std::memcpy(cut.data() + lengthAt, &size, sizeof(size));
  return cut;
}

TEST(MessageCodec, ACutInTheLastChunkIsSeenBeforeItIsRead) {
  MessageCodec codec;
  Bytes references = makeBits(kCodedChunkBytes + 40000, 1);
  for (const Bytes &values : {makeMoved(references, 2), makeBits(171072, 3)}) {
    ASSERT_EQ(values.size(), references.size());
    Message message = encode(codec, kDelta, values, references);
    ASSERT_EQ(
        failureOf(codec, kDelta, cutTo(message, message.size), references), "");
    for (size_t missing : {1, 2, 100, 900}) {
      std::string error = failureOf(
          codec, kDelta, cutTo(message, message.size - missing), references);
      EXPECT_EQ(error.find("expected at most "), 0u) << error;
      EXPECT_NE(error.find(" bytes of a chunk, got "), error.npos) << error;
    }
  }
  // Its header has no room any more.
  Bytes zeros(kCodedChunkBytes + 64), none(zeros.size());
  Message message = encode(codec, kDelta, zeros, zeros);
  EXPECT_EQ(message.size, kMessageHeaderBytes + 2 * kChunkHeaderBytes);
  EXPECT_EQ(failureOf(codec, kDelta, cutTo(message, message.size - 1), zeros),
            "expected 16 bytes of a chunk, got 15");
}

TEST(MessageCodec, NeedsRoomForTheWorst) {
  MessageCodec codec;
  Bytes values = makeBits(1000, 1), message(codedCapacity(1000) - 64);
  EXPECT_THROW(codec.encode(kDelta, values, values.data(), message),
               std::runtime_error);
}
