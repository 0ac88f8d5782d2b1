// SPDX-License-Identifier: Apache-2.0
//
// `--test-read-pt2` prints the bytes of every parameter and buffer, so that
// tests can see what the compiler embeds.

#include "TestReadPt2.h"

#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Import/Pt2.h"
#include "fcdp/Import/Pt2Tensors.h"
#include "fcdp/Support/Printable.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

static LogicalResult printTensors(llvm::MemoryBufferRef archive,
                                  llvm::raw_ostream &output,
                                  MLIRContext *context) {
  OwningOpRef<ModuleOp> module = fcdp::importPt2(archive, context);
  if (!module)
    return failure();
  llvm::Expected<fcdp::Pt2Tensors> tensors = fcdp::Pt2Tensors::open(archive);
  if (!tensors)
    return module->emitError(llvm::toString(tensors.takeError()));
  auto print = [&](StringRef name) -> LogicalResult {
    llvm::Expected<std::vector<char>> bytes = tensors->readTensor(name);
    if (!bytes)
      return module->emitError(llvm::toString(bytes.takeError()));
    output << fcdp::printable(name) << ": "
           << llvm::toHex(StringRef(bytes->data(), bytes->size()),
                          /*LowerCase=*/true)
           << '\n';
    return success();
  };
  for (auto parameter : module->getOps<fcdp::ParameterOp>())
    for (auto name : parameter.getNames().getAsRange<StringAttr>())
      if (failed(print(name)))
        return failure();
  for (auto buffer : module->getOps<fcdp::BufferOp>())
    if (failed(print(buffer.getName())))
      return failure();
  return success();
}

void fcdp::registerTestReadPt2Translation() {
  static TranslateRegistration registration(
      "test-read-pt2", "print the values in a training-step archive",
      [](const std::shared_ptr<llvm::SourceMgr> &sources,
         llvm::raw_ostream &output, MLIRContext *context) {
        return printTensors(sources->getMemoryBuffer(sources->getMainFileID())
                                ->getMemBufferRef(),
                            output, context);
      });
}
