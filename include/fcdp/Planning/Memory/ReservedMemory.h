// SPDX-License-Identifier: Apache-2.0
//
// The part of the device arena that is reserved for states and buffers, by
// time. Results of operators may be in the rest.
#pragma once

#include "fcdp/Planning/Memory/MemoryLayout.h"
#include "fcdp/Planning/Memory/MemoryRanges.h"

namespace fcdp {

/// Returns the first byte and the end of `buffer`, over all ranks. An end that
/// overflows is replaced by the greatest integer.
std::pair<int64_t, int64_t> getExtent(BufferAttr buffer, MeshOp mesh);

/// Returns the memory that is reserved while `function` runs: the places of
/// `layouts`, at the times of their timeline. The time is proportional to the
/// buffers times those that share bytes with each.
ReservedMemory findReservedMemory(mlir::func::FuncOp function,
                                  const MemoryLayouts &layouts);

} // namespace fcdp
