// SPDX-License-Identifier: Apache-2.0
//
// The contents of files that ranks compare. Ranks that read the same file share
// the work of looking at it.
#pragma once

#include "checkpoint/FileDigest.h"
#include "session/Agreement.h"

namespace fcdp {

/// Files that must have the same contents on all ranks that name them.
struct FileFact {
  /// The fact without the contents: "--input ids", and a path as its place.
  Fact fact;
  FileSet files;
};

/// The most bytes of one set of files that each rank of a node looks at, about
/// a second of its time. So all bytes are compared of files of up to so many
/// times the ranks of a node.
inline constexpr uint64_t kMostBytesOfRank = uint64_t(2) << 30;

/// A rank's part in comparing files. The steps are in the order of functions,
/// with an exchange of texts of all ranks between two of them. Used by one
/// thread.
class FileAgreement {
public:
  FileAgreement(const Mesh &mesh, std::vector<FileFact> files)
      : mesh(mesh), files(std::move(files)) {}

  /// Which files this rank names.
  std::string names() const;
  /// Reads this rank's share of them. Throws std::runtime_error.
  std::string sums(uint32_t rank, const std::vector<std::string> &names);
  /// The facts with the size and the digest of the contents. If all ranks name
  /// the same file, nobody has looked at it, and they have no digest.
  std::vector<Fact> facts(const std::vector<std::string> &sums) const;

private:
  /// How a file is shared among ranks.
  struct Sharing {
    /// Those that name the same file, in order.
    std::vector<uint32_t> ranks;
    bool isOfAll = true;
  };

  const Mesh mesh;
  const std::vector<FileFact> files;
  std::vector<Sharing> sharings; ///< by file
};

} // namespace fcdp
