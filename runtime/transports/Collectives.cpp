// SPDX-License-Identifier: Apache-2.0

#include "transports/Collectives.h"
#include "core/SumKernels.h"

#include <algorithm>
#include <cstring>

namespace fcdp {
namespace {

/// Returns the channel of a collective. A collective has the same stream on all
/// ranks, so both sides use the same channel.
uint32_t channelOf(const Collective &collective) {
  return uint32_t(collective.stream);
}

/// Returns the peers in the order rank + 1, rank + 2, ..., so that the ranks do
/// not all send to rank 0 first.
uint32_t peerAt(const Transport &transport, uint32_t distance) {
  return (transport.rank() + distance) % transport.size();
}

[[noreturn]] void refuse(const Collective &collective,
                         const std::string &reason) {
  throw std::runtime_error(std::string(collective.what) + ": " + reason);
}

} // namespace

void CollectiveScratch::reserve(size_t ranks) {
  sends.reserve(ranks);
  recvs.reserve(ranks);
  chunks.reserve(ranks);
}

namespace {

/// Makes `decode` decode the message of the group's rank `from`, and names the
/// rank in its error.
template <typename Decode>
void decodeFrom(const Transport &transport, const Collective &collective,
                uint32_t from, Decode decode) {
  try {
    decode();
  } catch (const CodeError &error) {
    auto nameOf = [&](uint32_t rank) {
      return "rank " + std::to_string(transport.worldRank(rank));
    };
    throw TransportError(std::string(collective.what) + ": " +
                         nameOf(transport.rank()) + ": the coded message of " +
                         nameOf(from) + ": " + error.what());
  }
}

/// Gathers differences from the values that were gathered last. All peers get
/// the same message.
void gatherDifferences(Transport &transport, const Collective &collective,
                       CollectiveScratch &scratch) {
  WireCodec &codec = scratch.codec;
  codec.check(collective);
  const size_t bytes = collective.bytes, most = codec.bytes(collective, bytes);
  auto messageOf = [&](uint32_t rank) {
    return std::span(collective.message.memory + rank * most, most);
  };
  const uint32_t own = transport.rank();
  const size_t length =
      codec.encode(collective, own, {collective.in, bytes}, messageOf(own));
  scratch.sends.clear();
  scratch.recvs.clear();
  for (uint32_t distance = 1; distance < transport.size(); ++distance) {
    uint32_t to = peerAt(transport, distance);
    uint32_t from = peerAt(transport, transport.size() - distance);
    scratch.sends.push_back({to, messageOf(own).data(), length});
    scratch.recvs.push_back({from, messageOf(from).data(), most});
  }
  transport.exchange(scratch.sends, scratch.recvs, collective.what,
                     channelOf(collective));
  for (const Recv &recv : scratch.recvs)
    decodeFrom(transport, collective, recv.peer, [&] {
      codec.decode(collective, recv.peer, {recv.data, recv.bytes},
                   {collective.out + recv.peer * bytes, bytes});
    });
  if (collective.out + own * bytes != collective.in)
    std::memcpy(collective.out + own * bytes, collective.in, bytes);
}

/// Sends each peer its chunk, and puts theirs into `collective.scratch`.
void exchangeChunks(Transport &transport, const Collective &collective,
                    CollectiveScratch &scratch, size_t chunkBytes) {
  scratch.sends.clear();
  scratch.recvs.clear();
  for (uint32_t distance = 1; distance < transport.size(); ++distance) {
    uint32_t to = peerAt(transport, distance);
    uint32_t from = peerAt(transport, transport.size() - distance);
    scratch.sends.push_back({to, collective.in + to * chunkBytes, chunkBytes});
    scratch.recvs.push_back(
        {from, collective.scratch + from * chunkBytes, chunkBytes});
  }
  transport.exchange(scratch.sends, scratch.recvs, collective.what,
                     channelOf(collective));
}

/// Does the same with messages.
void exchangeMessages(Transport &transport, const Collective &collective,
                      CollectiveScratch &scratch, size_t chunkBytes) {
  WireCodec &codec = scratch.codec;
  codec.check(collective);
  const size_t most = codec.bytes(collective, chunkBytes);
  auto messageAt = [&](size_t place) {
    return std::span(collective.message.memory + place * most, most);
  };
  scratch.sends.clear();
  scratch.recvs.clear();
  for (uint32_t distance = 1; distance < transport.size(); ++distance) {
    uint32_t to = peerAt(transport, distance);
    uint32_t from = peerAt(transport, transport.size() - distance);
    size_t length = codec.encode(collective, to,
                                 {collective.in + to * chunkBytes, chunkBytes},
                                 messageAt(to));
    scratch.sends.push_back({to, messageAt(to).data(), length});
    scratch.recvs.push_back(
        {from, messageAt(transport.size() + from).data(), most});
  }
  transport.exchange(scratch.sends, scratch.recvs, collective.what,
                     channelOf(collective));
  for (const Recv &recv : scratch.recvs)
    decodeFrom(transport, collective, recv.peer, [&] {
      codec.decode(collective, recv.peer, {recv.data, recv.bytes},
                   {collective.scratch + recv.peer * chunkBytes, chunkBytes});
    });
  codec.clearPadding(collective);
}

} // namespace

void allGather(Transport &transport, const Collective &collective,
               CollectiveScratch &scratch) {
  if (!collective.message.isRaw() && collective.bytes)
    return gatherDifferences(transport, collective, scratch);
  const size_t bytes = collective.bytes;
  std::byte *own = collective.out + transport.rank() * bytes;
  scratch.sends.clear();
  scratch.recvs.clear();
  for (uint32_t distance = 1; distance < transport.size(); ++distance) {
    uint32_t to = peerAt(transport, distance);
    uint32_t from = peerAt(transport, transport.size() - distance);
    scratch.sends.push_back({to, collective.in, bytes});
    scratch.recvs.push_back({from, collective.out + from * bytes, bytes});
  }
  if (own != collective.in && bytes)
    std::memcpy(own, collective.in, bytes);
  transport.exchange(scratch.sends, scratch.recvs, collective.what,
                     channelOf(collective));
}

void reduceScatter(Transport &transport, const Collective &collective,
                   CollectiveScratch &scratch, size_t locals) {
  const size_t ranks = transport.size();
  const size_t elementBytes = byteSize(collective.inType);
  const size_t chunkBytes = collective.bytes / ranks;
  if (chunkBytes * ranks != collective.bytes || chunkBytes % elementBytes != 0)
    refuse(collective, "cannot cut " + std::to_string(collective.bytes) +
                           " bytes of " + name(collective.inType) + " in " +
                           std::to_string(ranks) + " equal chunks");
  if (locals == 0 || ranks % locals != 0)
    refuse(collective, "cannot group " + std::to_string(ranks) +
                           " ranks as nodes of " + std::to_string(locals));
  if (collective.message.isRaw() || chunkBytes == 0)
    exchangeChunks(transport, collective, scratch, chunkBytes);
  else
    exchangeMessages(transport, collective, scratch, chunkBytes);

  // Rank l N + n of the world is local rank l of node n.
  const size_t nodes = ranks / locals;
  scratch.chunks.clear();
  for (size_t node = 0; node < nodes; ++node)
    for (size_t local = 0; local < locals; ++local) {
      size_t rank = local * nodes + node;
      scratch.chunks.push_back(
          (rank == transport.rank() ? collective.in : collective.scratch) +
          rank * chunkBytes);
    }
  sumGroups(collective.out, collective.outType, scratch.chunks, locals,
            collective.inType, chunkBytes / elementBytes);
}

void exchangeNumbers(Transport *transport, double own, std::span<double> all,
                     CollectiveScratch &scratch, const char *what) {
  uint32_t rank = transport ? transport->rank() : 0;
  uint32_t ranks = transport ? transport->size() : 1;
  if (all.size() != ranks)
    throw std::runtime_error("expected room for a number of each rank");
  all[rank] = own;
  scratch.sends.clear();
  scratch.recvs.clear();
  for (uint32_t peer = 0; peer < ranks; ++peer) {
    if (peer == rank)
      continue;
    scratch.sends.push_back(
        {peer, reinterpret_cast<const std::byte *>(&own), sizeof(own)});
    scratch.recvs.push_back(
        {peer, reinterpret_cast<std::byte *>(&all[peer]), sizeof(own)});
  }
  if (ranks > 1)
    transport->exchange(scratch.sends, scratch.recvs, what);
}

/// Sends the same bytes to all peers, and receives as many from each. Exchanges
/// of different lengths have different channels, because Gloo would end a
/// process that gets more bytes than it expects. So ranks that make different
/// calls wait, and the job reports the reason.
static void exchangeWithAll(Transport &transport,
                            std::span<const std::byte> own,
                            std::span<std::byte> all, const char *what) {
  std::vector<Send> sends;
  std::vector<Recv> recvs;
  for (uint32_t peer = 0; peer < transport.size(); ++peer) {
    if (peer == transport.rank())
      continue;
    sends.push_back({peer, own.data(), own.size()});
    recvs.push_back({peer, all.data() + peer * own.size(), own.size()});
  }
  transport.exchange(sends, recvs, what, uint32_t(kNumStreams + own.size()));
}

std::vector<double> gatherValues(Transport &transport,
                                 std::span<const double> values,
                                 const char *what) {
  std::vector<double> all(transport.size() * values.size());
  std::copy(values.begin(), values.end(),
            all.begin() + transport.rank() * values.size());
  exchangeWithAll(transport, std::as_bytes(values),
                  std::as_writable_bytes(std::span(all)), what);
  return all;
}

void barrier(Transport &transport, const char *what) {
  const std::byte token{};
  std::vector<std::byte> tokens(transport.size());
  exchangeWithAll(transport, {&token, 1}, tokens, what);
}

} // namespace fcdp
