// SPDX-License-Identifier: Apache-2.0
//
// The forms of bytes in reports.
#pragma once

#include "fcdp/Analysis/Traffic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace fcdp {

/// Prints `1536 bytes (1.5 KiB)`.
void printBytes(uint64_t bytes, llvm::raw_ostream &stream);

/// Prints a line that begins with `label`: the bytes between nodes and inside a
/// node.
void printTraffic(llvm::StringRef label, const LinkBytes &bytes,
                  llvm::raw_ostream &stream);

/// Writes the bytes of each link as the attribute `name`.
void writeTraffic(llvm::json::OStream &json, llvm::StringRef name,
                  const LinkBytes &bytes);

} // namespace fcdp
