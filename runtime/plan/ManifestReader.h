// SPDX-License-Identifier: Apache-2.0
//
// Readers of the manifest, and of small forms that its parts share. They throw
// std::runtime_error that names the place.
#pragma once

#include "plan/Json.h"
#include "plan/Manifest.h"

namespace fcdp {

/// Sizes above this are nonsense, and sums of a few of them cannot overflow.
constexpr int64_t kGreatestSize = int64_t(1) << 56;

uint64_t readSize(const JsonNode &node);
DType readDType(const JsonNode &node);
Buf readBuf(const JsonNode &node);
Shape readShape(const JsonNode &node);
size_t readIndex(const JsonNode &node, size_t limit, const char *what);

/// An entry of "ops". `manifest` holds all parts but the ops.
Op readOp(const JsonNode &node, const Manifest &manifest);
/// The whole, with what each entry says by itself checked.
Manifest readManifest(const JsonNode &root);

} // namespace fcdp
