// SPDX-License-Identifier: Apache-2.0

#include "PlanParts.h"

#include "fcdp/Analysis/Aliases.h"

using namespace mlir;
using namespace fcdp;

LogicalResult fcdp::verifyBufferWrites(func::FuncOp function) {
  llvm::DenseMap<StringAttr, WriteBufferOp> lastWrites;
  for (auto write : function.getOps<WriteBufferOp>())
    lastWrites[write.getTargetAttr().getAttr()] = write;
  if (lastWrites.empty())
    return success();
  for (auto read : function.getOps<ReadBufferOp>()) {
    WriteBufferOp write = lastWrites.lookup(read.getSourceAttr().getAttr());
    if (!write || write->isBeforeInBlock(read))
      continue;
    for (Operation *user : collectMemoryUsers(read.getResult())) {
      if (!write->isBeforeInBlock(user))
        continue;
      InFlightDiagnostic diag = user->emitOpError("uses a value of buffer ")
                                << read.getSourceAttr()
                                << " after the buffer was written";
      diag.attachNote(write.getLoc()) << "written here";
      diag.attachNote(read.getLoc()) << "read here";
      return diag;
    }
  }
  return success();
}
