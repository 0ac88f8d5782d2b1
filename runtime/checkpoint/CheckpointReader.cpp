// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/CheckpointReader.h"

#include "checkpoint/CheckpointFolders.h"
#include "files/FileErrors.h"
#include "files/MappedFile.h"

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

/// Checks that the step in the folder's name is that of its index.
void checkStep(const std::string &folder, int64_t step) {
  std::optional<int64_t> named = stepOfCheckpoint(folder);
  if (named && *named != step)
    throwAt(folder + "/" + kIndexName,
            "expected step " + std::to_string(*named) +
                ", as the folder's name says, got " + std::to_string(step) +
                "; the index is damaged, or of another checkpoint");
}

} // namespace

CheckpointReader::CheckpointReader(const std::string &folder)
    : folder(folder), contents(readIndex(folder)),
      files(contents.files.size()) {
  checkStep(folder, contents.step);
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

RankFile &CheckpointReader::open(uint32_t number) {
  std::unique_ptr<RankFile> &file = files[number];
  if (!file)
    file =
        std::make_unique<RankFile>(folder + "/" + contents.files[number].name,
                                   contents.files[number].digest);
  return *file;
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
      open(piece.file)
          .read(pieceName(state, piece), piece.length, state.dtype,
                begin - piece.offset, end - begin,
                target + (begin - first) * width);
  }
}

} // namespace fcdp
