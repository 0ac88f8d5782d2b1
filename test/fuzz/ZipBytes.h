// SPDX-License-Identifier: Apache-2.0
//
// Takes zip archives apart and puts them together again, so that a fuzzer can
// change what is inside: the checksums of a zip stop changes from outside.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace fcdp::fuzz {

struct ZipEntry {
  std::string name, content;
};

/// Empty if `bytes` is no archive of stored entries.
std::vector<ZipEntry> unpack(llvm::StringRef bytes);
/// An archive of stored entries.
std::string pack(const std::vector<ZipEntry> &entries);

} // namespace fcdp::fuzz
