// SPDX-License-Identifier: Apache-2.0
//
// Readers of the manifest's small forms, shared by its parts.
#pragma once

#include "step/Json.h"
#include "step/Manifest.h"

namespace fcdp {

DType readDType(const JsonNode &node);
Buf readBuf(const JsonNode &node);
Shape readShape(const JsonNode &node);
size_t readIndex(const JsonNode &node, size_t limit, const char *what);

/// An entry of "ops". `manifest` holds all parts but the ops.
Op readOp(const JsonNode &node, const Manifest &manifest);

} // namespace fcdp
