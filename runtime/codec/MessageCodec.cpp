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
  /// The bytes of the values, and of the message with all headers.
  uint64_t valueBytes, messageBytes;
};
static_assert(sizeof(MessageHeader) <= kMessageHeaderBytes);

struct ChunkHeader {
  /// The bytes of the code of each plane. A plane of zeros has none, and a
  /// plane whose code would not be smaller is not coded.
  uint32_t low, high;
  /// XXH3 of the values.
  uint64_t checksum;
};
static_assert(sizeof(ChunkHeader) == kChunkHeaderBytes);

/// The value of ChunkHeader::low for a chunk that is not coded.
constexpr uint32_t kDense = ~0u;
/// Added to ChunkHeader::low if the plane is in the order of classes.
constexpr uint32_t kSorted = 1u << 31;

/// The header of a plane that is sorted by class.
struct ClassHeader {
  /// The bytes of the code of each class, in the same sense as for a plane.
  uint32_t bytes[kNumClasses];
  uint32_t top;
};

/// The least number of values of a sorted chunk. Classes of smaller chunks have
/// too few.
constexpr size_t kLeastSorted = 8192;

ExponentBits exponentOf(DType type) {
  return type == DType::F16 ? ExponentBits{10, 0x1f} : ExponentBits{7, 0xff};
}

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

MessageCodec::MessageCodec()
    : high(kCodedChunkBytes), low(kCodedChunkBytes), classes(kCodedChunkBytes),
      sorted(kCodedChunkBytes) {}

size_t MessageCodec::encodePlane(std::span<const std::byte> plane,
                                 std::span<std::byte> out) {
  if (plane.empty() || isZero(plane))
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

/// Codes the low plane of differences sorted by class, and returns
/// ChunkHeader::low, or 0 if the code does not fit.
uint32_t MessageCodec::encodeDifferences(DType type,
                                         const std::byte *references,
                                         size_t count,
                                         std::span<std::byte> out) {
  ClassHeader header{};
  size_t end = sizeof(header);
  if (count < kLeastSorted || isZero({low.data(), count}))
    return 0;
  ExponentBits bits = exponentOf(type);
  uint8_t top = ClassOrder::chooseTop(shorts(references), count, bits);
  order.classify(shorts(references), count, bits, top, octets(classes));
  order.sort(octets(low), octets(sorted));
  header.top = top;
  std::span<const std::byte> rest = sorted;
  for (size_t which = 0; which < kNumClasses; ++which) {
    size_t size = order.size(which);
    if (end + size > out.size())
      return 0;
    header.bytes[which] =
        uint32_t(encodePlane(rest.first(size), out.subspan(end, size)));
    rest = rest.subspan(size);
    end += header.bytes[which];
  }
  std::memcpy(out.data(), &header, sizeof(header));
  return uint32_t(end) | kSorted;
}

/// Decodes the low plane of differences. Returns false if the code is damaged.
bool MessageCodec::decodeDifferences(DType type,
                                     std::span<const std::byte> code,
                                     const std::byte *references,
                                     size_t count) {
  if (code.size() < sizeof(ClassHeader))
    return false;
  auto header = readHeader<ClassHeader>(code.data());
  code = code.subspan(sizeof(header));
  if (header.top > 255)
    return false;
  order.classify(shorts(references), count, exponentOf(type),
                 uint8_t(header.top), octets(classes));
  std::span<std::byte> rest = sorted;
  for (size_t which = 0; which < kNumClasses; ++which) {
    size_t size = order.size(which), bytes = header.bytes[which];
    if (bytes > code.size() || bytes > size ||
        !decodePlane(code.first(bytes), rest.first(size)))
      return false;
    code = code.subspan(bytes);
    rest = rest.subspan(size);
  }
  order.restore(octets(sorted), octets(low));
  return code.empty();
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
    // The bits of a fraction after the exponent are random.
    bool isCoded = coding.code == WireCode::Delta;
    if (isCoded) {
      header.low = encodeDifferences(coding.type, references, count,
                                     {body, lowPlane.size()});
      if (header.low == 0)
        header.low = uint32_t(encodePlane(lowPlane, {body, lowPlane.size()}));
    } else {
      std::copy(lowPlane.begin(), lowPlane.end(), body);
      header.low = uint32_t(lowPlane.size());
    }
    size_t lowBytes = header.low & ~kSorted;
    header.high =
        uint32_t(encodePlane({high.data(), count}, {body + lowBytes, count}));
    bytes = lowBytes + header.high;
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
  bool isSorted = !isDense && (header.low & kSorted) != 0;
  size_t lowBytes = header.low & ~kSorted;
  size_t bytes = isDense ? values.size() : lowBytes + size_t(header.high);
  if (bytes > chunk.size() || bytes > values.size())
    failDecoding("expected at most ", std::min(chunk.size(), values.size()),
                 " bytes of a chunk, got ", bytes);
  if (isDense) {
    std::copy_n(chunk.begin(), bytes, values.begin());
  } else {
    size_t count = values.size() / byteSize(coding.type);
    std::span<const std::byte> lowCode = chunk.first(lowBytes);
    bool isGood =
        isSorted
            ? coding.code == WireCode::Delta &&
                  decodeDifferences(coding.type, lowCode, references, count)
            : decodePlane(lowCode, std::span(low).first(values.size() - count));
    if (!isGood || !decodePlane(chunk.subspan(lowBytes, header.high),
                                std::span(high).first(count)))
      failDecoding("its code is damaged");
    join(coding, octets(low), octets(high), references, values);
  }
  if (XXH3_64bits(values.data(), values.size()) != header.checksum)
    failDecoding("its values do not have the sender's checksum: the message is "
                 "damaged, or was coded with other values than the last "
                 "gathered ones");
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
