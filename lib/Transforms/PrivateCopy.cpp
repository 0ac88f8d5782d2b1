// SPDX-License-Identifier: Apache-2.0

#include "PrivateCopy.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace fcdp;

PrivateCopy::PrivateCopy(ModuleOp module)
    : context(MLIRContext::Threading::DISABLED) {
  context.appendDialectRegistry(module.getContext()->getDialectRegistry());
  context.getDiagEngine().registerHandler(
      [](Diagnostic &) { return success(); });
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, OpPrintingFlags().enableDebugInfo());
  copy = parseSourceString<ModuleOp>(
      text, ParserConfig(&context, /*verifyAfterParse=*/false));
  assert(copy && "a module that is printed can be parsed");
}
