// SPDX-License-Identifier: Apache-2.0

#include "codec/MessageCodec.h"

#include "codec/Planes.h"

#include <algorithm>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace fcdp {
namespace {

constexpr uint32_t kMagic = 0x57444346; // "FCDW"

struct MessageHeader {
  uint32_t magic;
  uint8_t code, type;
  uint16_t unused;
  uint64_t generation;
  /// Of the values, and of the message with all headers.
  uint64_t valueBytes, messageBytes;
};
static_assert(sizeof(MessageHeader) <= kMessageHeaderBytes);

struct ChunkHeader {
  /// Bytes of the code of each plane. A plane of zeros has none, and a plane
  /// that is as large as its code is not coded.
  uint32_t low, high;
  /// XXH3 of the values.
  uint64_t checksum;
};
static_assert(sizeof(ChunkHeader) == kChunkHeaderBytes);

/// ChunkHeader::low of a chunk that is not coded.
constexpr uint32_t kDense = ~0u;

template <typename Header>
Header readHeader(const std::byte *from) {
  Header header;
  std::memcpy(&header, from, sizeof(header));
  return header;
}

template <typename... Parts>
[[noreturn]] void failDecoding(const Parts &...parts) {
  auto text = [](const auto &part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>)
      return std::to_string(part);
    else
      return std::string(part);
  };
  throw CodeError((text(parts) + ...));
}

const uint16_t *shorts(const std::byte *bytes) {
  return reinterpret_cast<const uint16_t *>(bytes);
}
uint8_t *octets(std::vector<std::byte> &bytes) {
  return reinterpret_cast<uint8_t *>(bytes.data());
}

void split(const MessageCoding &coding, std::span<const std::byte> values,
           const std::byte *references, uint8_t *low, uint8_t *high) {
  size_t count = values.size() / byteSize(coding.type);
  if (coding.code == WireCode::Delta)
    splitDifferences(shorts(values.data()), shorts(references), count, low,
                     high);
  else if (coding.type == DType::F32)
    splitExponents(reinterpret_cast<const uint32_t *>(values.data()), count,
                   low, high);
  else
    splitExponents(shorts(values.data()), count, low, high);
}

void join(const MessageCoding &coding, const uint8_t *low, const uint8_t *high,
          const std::byte *references, std::span<std::byte> values) {
  size_t count = values.size() / byteSize(coding.type);
  auto *halves = reinterpret_cast<uint16_t *>(values.data());
  if (coding.code == WireCode::Delta)
    joinDifferences(low, high, shorts(references), count, halves);
  else if (coding.type == DType::F32)
    joinExponents(low, high, count,
                  reinterpret_cast<uint32_t *>(values.data()));
  else
    joinExponents(low, high, count, halves);
}

bool isZero(std::span<const std::byte> bytes) {
  return bytes[0] == std::byte{} &&
         std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

bool hasReferences(const MessageCoding &coding) {
  return coding.code == WireCode::Coded || coding.generation > 0;
}

} // namespace

MessageCodec::MessageCodec() : high(kCodedChunkBytes), low(kCodedChunkBytes) {}

size_t MessageCodec::encodePlane(std::span<const std::byte> plane,
                                 std::span<std::byte> out) {
  if (isZero(plane))
    return 0;
  if (size_t size = coder.encode(plane, out); size && size < plane.size())
    return size;
  std::copy(plane.begin(), plane.end(), out.begin());
  return plane.size();
}

bool MessageCodec::decodePlane(std::span<const std::byte> code,
                               std::span<std::byte> plane) {
  if (code.empty()) {
    std::fill(plane.begin(), plane.end(), std::byte{});
    return true;
  }
  if (code.size() != plane.size())
    return coder.decode(code, plane);
  std::copy(code.begin(), code.end(), plane.begin());
  return true;
}

/// Returns the bytes of the chunk with its header.
size_t MessageCodec::encodeChunk(const MessageCoding &coding,
                                 std::span<const std::byte> values,
                                 const std::byte *references, std::byte *out) {
  ChunkHeader header{kDense, 0, XXH3_64bits(values.data(), values.size())};
  std::byte *body = out + sizeof(header);
  size_t bytes = values.size();
  if (hasReferences(coding)) {
    size_t count = values.size() / byteSize(coding.type);
    split(coding, values, references, octets(low), octets(high));
    std::span lowPlane(low.data(), values.size() - count);
    // Behind the exponents the bits of a fraction are random.
    bool isCoded = coding.code == WireCode::Delta;
    if (isCoded) {
      header.low = uint32_t(encodePlane(lowPlane, {body, lowPlane.size()}));
    } else {
      std::copy(lowPlane.begin(), lowPlane.end(), body);
      header.low = uint32_t(lowPlane.size());
    }
    header.high =
        uint32_t(encodePlane({high.data(), count}, {body + header.low, count}));
    bytes = header.low + header.high;
  }
  if (bytes >= values.size()) {
    header.low = kDense;
    header.high = 0;
    std::copy(values.begin(), values.end(), body);
    bytes = values.size();
  }
  std::memcpy(out, &header, sizeof(header));
  return sizeof(header) + bytes;
}

size_t MessageCodec::encode(const MessageCoding &coding,
                            std::span<const std::byte> values,
                            const std::byte *references,
                            std::span<std::byte> message) {
  if (message.size() < codedCapacity(values.size()))
    throw std::runtime_error("expected room for a coded message of " +
                             std::to_string(codedCapacity(values.size())) +
                             " bytes, got " + std::to_string(message.size()));
  size_t end = kMessageHeaderBytes;
  for (size_t begin = 0; begin < values.size(); begin += kCodedChunkBytes) {
    size_t bytes = std::min<size_t>(kCodedChunkBytes, values.size() - begin);
    end += encodeChunk(coding, values.subspan(begin, bytes),
                       references ? references + begin : nullptr,
                       message.data() + end);
  }
  MessageHeader header{kMagic, uint8_t(coding.code), uint8_t(coding.type),
                       0,      coding.generation,    values.size(),
                       end};
  std::fill_n(message.begin(), kMessageHeaderBytes, std::byte{});
  std::memcpy(message.data(), &header, sizeof(header));
  return end;
}

/// Returns the bytes of the chunk with its header.
size_t MessageCodec::decodeChunk(const MessageCoding &coding,
                                 std::span<const std::byte> chunk,
                                 const std::byte *references,
                                 std::span<std::byte> values) {
  if (chunk.size() < sizeof(ChunkHeader))
    failDecoding("expected ", sizeof(ChunkHeader), " bytes of a chunk, got ",
                 chunk.size());
  auto header = readHeader<ChunkHeader>(chunk.data());
  chunk = chunk.subspan(sizeof(header));
  bool isDense = header.low == kDense;
  if (!isDense && !hasReferences(coding))
    failDecoding("expected values as they are in the first gather, got "
                 "differences");
  size_t bytes =
      isDense ? values.size() : size_t(header.low) + size_t(header.high);
  if (bytes > chunk.size() || bytes > values.size())
    failDecoding("expected at most ", std::min(chunk.size(), values.size()),
                 " bytes of a chunk, got ", bytes);
  if (isDense) {
    std::copy_n(chunk.begin(), bytes, values.begin());
  } else {
    size_t count = values.size() / byteSize(coding.type);
    if (!decodePlane(chunk.first(header.low),
                     std::span(low).first(values.size() - count)) ||
        !decodePlane(chunk.subspan(header.low, header.high),
                     std::span(high).first(count)))
      failDecoding("its code is damaged");
    join(coding, octets(low), octets(high), references, values);
  }
  if (XXH3_64bits(values.data(), values.size()) != header.checksum)
    failDecoding("its values do not have the sender's checksum: the message is "
                 "damaged, or was coded against other values than those that "
                 "were gathered last");
  return sizeof(header) + bytes;
}

void MessageCodec::decode(const MessageCoding &coding,
                          std::span<const std::byte> message,
                          const std::byte *references,
                          std::span<std::byte> values) {
  if (message.size() < kMessageHeaderBytes)
    failDecoding("expected a header of ", kMessageHeaderBytes, " bytes, got ",
                 message.size());
  auto header = readHeader<MessageHeader>(message.data());
  if (header.magic != kMagic || header.code != uint8_t(coding.code) ||
      header.type != uint8_t(coding.type) || header.valueBytes != values.size())
    failDecoding("expected a coded message for ", values.size(), " bytes of ",
                 name(coding.type), ", got something else");
  if (header.generation != coding.generation)
    failDecoding("expected a message of gather ", coding.generation, ", got ",
                 header.generation);
  if (header.messageBytes > message.size())
    failDecoding("expected at most ", message.size(), " bytes, got ",
                 header.messageBytes);
  message = message.first(header.messageBytes);
  size_t end = kMessageHeaderBytes;
  for (size_t begin = 0; begin < values.size(); begin += kCodedChunkBytes) {
    size_t bytes = std::min<size_t>(kCodedChunkBytes, values.size() - begin);
    end += decodeChunk(coding, message.subspan(end),
                       references ? references + begin : nullptr,
                       values.subspan(begin, bytes));
  }
  if (end != message.size())
    failDecoding("expected ", end, " bytes, got ", message.size());
}

} // namespace fcdp
