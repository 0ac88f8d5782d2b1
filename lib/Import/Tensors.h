// SPDX-License-Identifier: Apache-2.0
//
// Locates the values of an archive's tensors.
#pragma once

#include "Archive.h"
#include "core/StridedLayout.h"
#include "fcdp/Support/Json.h"

#include "llvm/ADT/StringMap.h"

namespace fcdp::pt2 {

/// The place of a tensor: a strided part of a storage.
struct Payload : StridedLayout {
  /// The entry that holds the storage.
  std::string entry;
  bool pickled = false;
  int64_t scalarType = 0;
};

/// Locations by PyTorch name. An archive without weights has none.
using Payloads = llvm::StringMap<Payload>;
llvm::Expected<Payloads> readPayloads(const Archive &archive);

} // namespace fcdp::pt2
