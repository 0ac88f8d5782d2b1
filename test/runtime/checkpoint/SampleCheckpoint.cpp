// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/SampleCheckpoint.h"

#include "checkpoint/RankFile.h"
#include "files/ContentDigest.h"

#include <span>
#include <stdexcept>

namespace fcdp::test {

namespace {

constexpr uint32_t kRanks = 2;
constexpr int64_t kElements = 6;

float valueAt(int64_t step, int64_t element) {
  return float(step * 100 + element);
}

float bufferAt(int64_t step, uint32_t rank, int64_t element) {
  return float(-step * 100 - 10 * int64_t(rank) - element);
}

/// A rank's tensors and their data, in order.
std::vector<SafetensorsWriter::Entry> entriesOf(const CheckpointIndex &index,
                                                uint32_t rank,
                                                std::vector<float> &data) {
  std::vector<SafetensorsWriter::Entry> entries;
  for (const CheckpointState &state : index.states)
    for (const CheckpointPiece &piece : state.pieces) {
      if (piece.file != rank)
        continue;
      entries.push_back(
          {{pieceName(state, piece)}, {piece.length}, state.dtype});
      for (int64_t i = 0; i < piece.length; ++i)
        data.push_back(piece.rank ? bufferAt(index.step, rank, i)
                                  : valueAt(index.step, piece.offset + i));
    }
  return entries;
}

void expect(const std::string &path, float actual, float expected) {
  if (actual != expected)
    throw std::runtime_error(path + ": expected " + std::to_string(expected) +
                             ", got " + std::to_string(actual));
}

} // namespace

CheckpointIndex sampleIndex(int64_t step) {
  CheckpointIndex index;
  index.step = step;
  index.worldSize = kRanks;
  index.planHash = "0123";
  index.job = {{"rows", 8}};
  CheckpointState value{{"w", "tied.w"}, kValueRole, DType::F32, {2, 3}};
  value.updates = step;
  value.trainable = true;
  value.pieces = {{0, 0, 4}, {1, 4, 2}};
  CheckpointState buffer{{"b"}, kBufferRole, DType::F32, {2}};
  buffer.persistent = true;
  buffer.pieces = {{0, 0, 2, 0}, {1, 0, 2, 1}};
  index.states = {value, buffer};
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    std::vector<float> data;
    index.files.push_back({rankFileName(rank, kRanks),
                           rankFileBytes(entriesOf(index, rank, data)),
                           std::string(kDigestDigits, '0')});
  }
  return index;
}

void saveSample(const std::string &run, int64_t step,
                std::optional<size_t> keep) {
  CheckpointIndex index = sampleIndex(step);
  beginCheckpoint(run, step);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    std::vector<float> data;
    auto entries = entriesOf(index, rank, data);
    index.files[rank].digest =
        writeRankFile(partialPath(run, step) + "/" + index.files[rank].name,
                      entries, std::as_bytes(std::span(data)));
  }
  commitCheckpoint(run, index);
  if (keep)
    pruneCheckpoints(run, *keep);
}

int64_t readSample(const std::string &path) {
  CheckpointReader reader(path);
  int64_t step = reader.index().step;
  const CheckpointState *value = reader.find(kValueRole, {"other", "tied.w"});
  const CheckpointState *buffer = reader.find(kBufferRole, {"b"});
  if (!value || !buffer)
    throw std::runtime_error(path + ": expected the states w and b");
  std::vector<float> read(kElements);
  auto *target = reinterpret_cast<std::byte *>(read.data());
  reader.read(*value, /*rank=*/0, 0, kElements, target);
  for (int64_t i = 0; i < kElements; ++i)
    expect(path, read[i], valueAt(step, i));
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    reader.read(*buffer, rank, 0, 2, target);
    for (int64_t i = 0; i < 2; ++i)
      expect(path, read[i], bufferAt(step, rank, i));
  }
  return step;
}

} // namespace fcdp::test
