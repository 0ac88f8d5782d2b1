// SPDX-License-Identifier: Apache-2.0
//
// Compares the contents of files between ranks. Ranks that read the same file
// share the work.
#pragma once

#include "files/FileDigest.h"
#include "job/Agreement.h"

namespace fcdp {

/// Files that must have the same contents on all ranks that name them.
struct FileFact {
  /// The fact without the contents: "--input ids", with a path as its place.
  Fact fact;
  FileSet files;
};

/// The most bytes of one set of files that each rank of a node reads, which
/// takes about a second. So all bytes of a file are compared if it has at most
/// this many times the ranks of a node.
inline constexpr uint64_t kMostBytesOfRank = uint64_t(2) << 30;

/// A rank's part in comparing files. The functions are called in their order,
/// with an exchange of texts between all ranks after each of the first two.
/// Used by one thread.
class FileAgreement {
public:
  FileAgreement(const Mesh &mesh, std::vector<FileFact> files)
      : mesh(mesh), files(std::move(files)) {}

  /// Returns the files that this rank names.
  std::string names() const;
  /// Reads this rank's share of the files. Throws std::runtime_error.
  std::string sums(uint32_t rank, const std::vector<std::string> &names);
  /// Returns the facts with the sizes and the digests of the contents. If all
  /// ranks name the same file, no rank has read it, and the fact has no digest.
  std::vector<Fact> facts(const std::vector<std::string> &sums) const;

private:
  /// How ranks share a file.
  struct Sharing {
    /// The ranks that name the same file, in order.
    std::vector<uint32_t> ranks;
    bool isOfAll = true;
  };

  const Mesh mesh;
  const std::vector<FileFact> files;
  std::vector<Sharing> sharings; ///< by file
};

} // namespace fcdp
