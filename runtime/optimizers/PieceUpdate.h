// SPDX-License-Identifier: Apache-2.0
//
// Updates a part of a shard in pieces, whose scratch memory is small.
#pragma once

#include "core/Pieces.h"
#include "optimizers/UpdatePart.h"

#include <map>
#include <vector>

namespace fcdp {

/// Scratch memory for one piece. All updates of a step share it, because they
/// run one after another on one stream. Used by the issuing thread only.
class PieceMemory {
public:
  explicit PieceMemory(at::Device device);

  /// Returns the number of elements of a piece, a multiple of all vector
  /// lengths. On a CPU a piece fits in the caches, and on a GPU it is long
  /// enough to hide its launches.
  int64_t elements() const;
  /// Returns row `index` of the rows of this type, which it makes if there are
  /// fewer.
  at::Tensor row(at::ScalarType type, size_t index);

private:
  at::Device device;
  std::map<at::ScalarType, std::vector<at::Tensor>> rows;
};

/// Used by the issuing thread only.
class PieceUpdate {
public:
  /// Prepares for parts with the types of `part`, and with `numMemories`
  /// tensors of scratch memory. If `isWidened`, a piece's parameter, its
  /// gradient, and its states in f16 or bf16 are computed in f32.
  PieceUpdate(const UpdatePart &part, bool isWidened, size_t numMemories,
              PieceMemory &memory);

  /// Calls `update` with each piece of a part.
  template <typename Update>
  void run(const UpdatePart &part, Update update) const {
    forEachPiece(part.segment.elements, pieceSize,
                 [&](int64_t begin, int64_t elements) {
                   UpdatePart piece = cut(part, begin, elements);
                   if (wide.empty())
                     return update(piece);
                   UpdatePart widened = widen(piece);
                   update(widened);
                   round(widened, piece);
                 });
  }

private:
  UpdatePart cut(const UpdatePart &part, int64_t begin, int64_t elements) const;
  /// Returns the piece with copies in f32.
  UpdatePart widen(const UpdatePart &piece) const;
  /// Rounds each result once, as PyTorch's fused kernels do.
  void round(const UpdatePart &widened, const UpdatePart &piece) const;

  const int64_t pieceSize;
  /// Memory for the parameter, the gradient and each state in f32; undefined
  /// for states of other types. Empty if pieces are computed as they are.
  std::vector<at::Tensor> wide;
  std::vector<at::Tensor> memories;
};

} // namespace fcdp
