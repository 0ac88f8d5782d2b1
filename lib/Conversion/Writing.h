// SPDX-License-Identifier: Apache-2.0
//
// Parts of the manifest that several of its entries have. Whoever writes closes
// what it opened also after an error: a JSON stream must end complete.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "llvm/Support/JSON.h"

namespace fcdp {

/// `"key": {"arena": ..., "offset": ..., ...}`
void writeBuffer(llvm::json::OStream &json, llvm::StringRef key,
                 BufferAttr buffer);
/// The same without the key, and without key and braces.
void writeBuffer(llvm::json::OStream &json, BufferAttr buffer);
void writeBufferKeys(llvm::json::OStream &json, BufferAttr buffer);

/// `"shape": [...]`
void writeShape(llvm::json::OStream &json, mlir::RankedTensorType type);

/// `"key": "f32"`. Refuses a type that the runtime lacks, at `op`.
mlir::LogicalResult writeDType(llvm::json::OStream &json, llvm::StringRef key,
                               mlir::Type type, mlir::Operation *op);

/// A number, or its name if it is not finite.
void writeNumber(llvm::json::OStream &json, double number);

/// `"loc": "file:line", "module": "path"`, empty where unknown.
void writeLocation(llvm::json::OStream &json, mlir::Location location);

} // namespace fcdp
