// SPDX-License-Identifier: Apache-2.0
//
// Where an archive keeps the values of its tensors.
#pragma once

#include "Archive.h"
#include "fcdp/Support/Json.h"

#include "llvm/ADT/StringMap.h"

namespace fcdp::pt2 {

/// A tensor's place: a strided view of a storage. Counts are in elements.
struct Payload {
  /// The entry that holds the storage.
  std::string entry;
  bool pickled = false;
  int64_t scalarType = 0;
  int64_t offset = 0;
  std::vector<int64_t> sizes, strides;
};

/// By PyTorch name. An archive may hold no values.
using Payloads = llvm::StringMap<Payload>;
llvm::Expected<Payloads> readPayloads(const Archive &archive);

} // namespace fcdp::pt2
