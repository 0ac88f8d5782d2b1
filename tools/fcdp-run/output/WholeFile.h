// SPDX-License-Identifier: Apache-2.0
//
// Files that exist completely or not at all.
#pragma once

#include <string>

namespace fcdp::run {

/// Returns the name that a file has until it is complete.
inline std::string temporaryName(const std::string &path) {
  return path + ".tmp";
}

/// Throws std::runtime_error, which names `option`, if no file can be made in
/// the folder of `path`, or in `path` if it is a folder.
void checkDirectory(const std::string &option, const std::string &path);

/// Writes `text` to temporaryName(path) and renames it. Throws
/// std::runtime_error, which names `option`.
void writeWhole(const std::string &option, const std::string &path,
                const std::string &text);

} // namespace fcdp::run
