// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/CheckpointReader.h"

#include "checkpoint/CheckpointFolders.h"
#include "checkpoint/FileErrors.h"
#include "checkpoint/MappedFile.h"

#include <algorithm>
#include <filesystem>

namespace fcdp {

namespace {

CheckpointIndex readIndex(const std::string &folder) {
  std::string path = folder + "/" + kIndexName;
  MappedFile file(path);
  std::span<const std::byte> bytes = file.bytes();
  try {
    return parseCheckpointIndex(
        {reinterpret_cast<const char *>(bytes.data()), bytes.size()});
  } catch (const std::exception &error) {
    file.requireWhole();
    throwAt(path, error.what());
  }
}

void checkSize(const std::string &path, uint64_t expected) {
  std::error_code error;
  uint64_t bytes = std::filesystem::file_size(path, error);
  if (error)
    throwAt(path, "cannot be examined: " + error.message());
  if (bytes != expected)
    throwAt(path, "expected " + std::to_string(expected) +
                      " bytes, as the index says, got " +
                      std::to_string(bytes));
}

} // namespace

CheckpointReader::CheckpointReader(const std::string &folder)
    : folder(folder), contents(readIndex(folder)),
      sources(contents.files.size()) {
  for (const CheckpointFile &file : contents.files)
    checkSize(folder + "/" + file.name, file.bytes);
  for (size_t i = 0; i < contents.states.size(); ++i)
    for (const std::string &name : contents.states[i].names)
      numbers.emplace(std::pair(contents.states[i].role, name), i);
}

const CheckpointState *
CheckpointReader::find(const std::string &role,
                       const std::vector<std::string> &names) const {
  for (const std::string &name : names)
    if (auto found = numbers.find({role, name}); found != numbers.end())
      return &contents.states[found->second];
  return nullptr;
}

StoredTensor CheckpointReader::open(const CheckpointState &state,
                                    const CheckpointPiece &piece) {
  std::unique_ptr<WeightSource> &source = sources[piece.file];
  if (!source)
    source = openSafetensors(folder + "/" + contents.files[piece.file].name);
  return requireTensor(*source, {pieceName(state, piece)}, {piece.length},
                       state.dtype);
}

void CheckpointReader::read(const CheckpointState &state, uint32_t owner,
                            int64_t first, int64_t count, std::byte *target) {
  size_t width = byteSize(state.dtype);
  for (const CheckpointPiece &piece : state.pieces) {
    if (piece.owner().value_or(owner) != owner)
      continue;
    int64_t begin = std::max(first, piece.offset);
    int64_t end = std::min(first + count, piece.offset + piece.length);
    if (begin < end)
      copyElements(open(state, piece), begin - piece.offset, end - begin,
                   target + (begin - first) * width);
  }
}

} // namespace fcdp
