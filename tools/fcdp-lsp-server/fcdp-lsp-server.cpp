// SPDX-License-Identifier: Apache-2.0
//
// A language server for steps in any phase: errors, definitions, hovers.

#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, fcdp::FcdpDialect,
                  fcdp::aten::AtenDialect>();
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
