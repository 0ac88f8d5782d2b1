// SPDX-License-Identifier: Apache-2.0
//
// Runs passes on a step at any phase.

#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Conversion/Passes.h"
#include "fcdp/Transforms/Passes.h"
#include "fcdp/Transforms/Pipeline.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, mlir::LLVM::LLVMDialect,
                  fcdp::FcdpDialect, fcdp::aten::AtenDialect>();
  mlir::registerCSEPass();
  mlir::registerCanonicalizerPass();
  fcdp::registerFcdpPasses();
  fcdp::registerFcdpPipeline();
  fcdp::registerFcdpConversionPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "fcdp step optimizer\n", registry));
}
