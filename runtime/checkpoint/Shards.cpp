// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/Shards.h"

#include <algorithm>
#include <cstring>

namespace fcdp {

namespace {

/// The parameters of each bucket, in the order of their places in it.
std::vector<std::vector<const Parameter *>>
membersOf(const Manifest &manifest) {
  std::vector<std::vector<const Parameter *>> members(manifest.buckets.size());
  for (const Parameter &parameter : manifest.parameters)
    members[parameter.bucket].push_back(&parameter);
  for (auto &bucket : members)
    std::sort(bucket.begin(), bucket.end(),
              [](const Parameter *a, const Parameter *b) {
                // Those of no elements may share an offset; the manifest's
                // order decides.
                return std::pair(a->offsetElements, a) <
                       std::pair(b->offsetElements, b);
              });
  return members;
}

/// Copies what of a parameter lies in the shard [begin, begin + elements).
void loadMember(const Parameter &parameter, const StoredTensor &tensor,
                int64_t begin, int64_t elements, std::byte *shard) {
  int64_t first = std::max(begin, parameter.offsetElements);
  int64_t end = std::min(begin + elements,
                         parameter.offsetElements + numElements(tensor.shape));
  if (first < end)
    copyElements(tensor, first - parameter.offsetElements, end - first,
                 shard + (first - begin) * byteSize(tensor.dtype));
}

std::vector<SafetensorsWriter::Entry>
entriesOf(const Manifest &manifest,
          const std::vector<std::vector<const Parameter *>> &members) {
  std::vector<SafetensorsWriter::Entry> entries;
  for (const auto &bucket : members)
    for (const Parameter *parameter : bucket)
      entries.push_back({parameter->names, parameter->shape, parameter->dtype});
  for (const BufferSpec &buffer : manifest.buffers)
    if (buffer.persistent)
      entries.push_back({{buffer.name}, buffer.shape, buffer.dtype});
  return entries;
}

} // namespace

std::vector<uint32_t> ownersOf(const Bucket &bucket, const Mesh &mesh) {
  std::vector<uint32_t> owners(countParts(bucket.sharding, mesh), mesh.size());
  for (uint32_t rank = 0; rank < mesh.size(); ++rank) {
    uint32_t &owner =
        owners[partOf(bucket.sharding, mesh, placeOf(mesh, rank))];
    owner = std::min(owner, rank);
  }
  return owners;
}

void loadShards(const Manifest &manifest, Place place, WeightSource &source,
                const MemoryOf &shard) {
  auto members = membersOf(manifest);
  for (size_t b = 0; b < manifest.buckets.size(); ++b) {
    const Bucket &bucket = manifest.buckets[b];
    std::span<std::byte> memory = shard(b);
    std::fill(memory.begin(), memory.end(), std::byte(0));
    int64_t begin =
        partOf(bucket.sharding, manifest.mesh, place) * bucket.shardElements;
    for (const Parameter *parameter : members[b]) {
      StoredTensor tensor = requireTensor(source, parameter->names,
                                          parameter->shape, parameter->dtype);
      loadMember(*parameter, tensor, begin, bucket.shardElements,
                 memory.data());
    }
  }
}

void loadBuffers(const Manifest &manifest, WeightSource &source,
                 const MemoryOf &buffer) {
  for (size_t b = 0; b < manifest.buffers.size(); ++b) {
    const BufferSpec &spec = manifest.buffers[b];
    if (spec.constantOffset)
      continue;
    StoredTensor tensor =
        requireTensor(source, {spec.name}, spec.shape, spec.dtype);
    copyElements(tensor, 0, numElements(spec.shape), buffer(b).data());
  }
}

void saveParameters(const Manifest &manifest, const std::string &path,
                    bool isWriter, const GatherShards &gather,
                    const MemoryOf &buffer) {
  auto members = membersOf(manifest);
  std::optional<SafetensorsWriter> writer;
  if (isWriter)
    writer.emplace(path, entriesOf(manifest, members));
  for (size_t b = 0; b < manifest.buckets.size(); ++b) {
    std::vector<std::byte> bucket = gather(b);
    if (!writer)
      continue;
    for (const Parameter *parameter : members[b]) {
      size_t elementBytes = byteSize(parameter->dtype);
      writer->write(std::span<const std::byte>(bucket).subspan(
          parameter->offsetElements * elementBytes,
          numElements(parameter->shape) * elementBytes));
    }
  }
  if (!writer)
    return;
  for (size_t b = 0; b < manifest.buffers.size(); ++b)
    if (manifest.buffers[b].persistent)
      writer->write(buffer(b));
  writer->finish();
}

} // namespace fcdp
