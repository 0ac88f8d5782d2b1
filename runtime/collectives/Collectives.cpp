// SPDX-License-Identifier: Apache-2.0

#include "collectives/Collectives.h"
#include "core/SumKernels.h"

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

void allGather(Transport &transport, const Collective &collective,
               CollectiveScratch &scratch) {
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
  scratch.sends.clear();
  scratch.recvs.clear();
  for (uint32_t distance = 1; distance < ranks; ++distance) {
    uint32_t to = peerAt(transport, distance);
    uint32_t from = peerAt(transport, ranks - distance);
    scratch.sends.push_back({to, collective.in + to * chunkBytes, chunkBytes});
    scratch.recvs.push_back(
        {from, collective.scratch + from * chunkBytes, chunkBytes});
  }
  transport.exchange(scratch.sends, scratch.recvs, collective.what,
                     channelOf(collective));

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

std::vector<double> gatherValues(Transport &transport,
                                 std::span<const double> values,
                                 const char *what) {
  std::vector<double> all(transport.size() * values.size());
  CollectiveScratch scratch;
  scratch.reserve(transport.size());
  Collective gather{};
  gather.stream = StreamId::Compute;
  gather.in = reinterpret_cast<const std::byte *>(values.data());
  gather.out = reinterpret_cast<std::byte *>(all.data());
  gather.bytes = values.size_bytes();
  gather.what = what;
  allGather(transport, gather, scratch);
  return all;
}

void barrier(Transport &transport, const char *what) {
  std::byte token{};
  std::vector<std::byte> tokens(transport.size());
  std::vector<Send> sends;
  std::vector<Recv> recvs;
  for (uint32_t peer = 0; peer < transport.size(); ++peer) {
    if (peer == transport.rank())
      continue;
    sends.push_back({peer, &token, 1});
    recvs.push_back({peer, &tokens[peer], 1});
  }
  transport.exchange(sends, recvs, what);
}

} // namespace fcdp
