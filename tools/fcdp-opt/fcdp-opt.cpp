// SPDX-License-Identifier: Apache-2.0
//
// Runs passes on a step at any phase.

#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Conversion/Passes.h"
#include "fcdp/Support/InputFile.h"
#include "fcdp/Support/OutputFile.h"
#include "fcdp/Transforms/Passes.h"
#include "fcdp/Transforms/Pipeline.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

/// MLIR's own function empties the output before it reads the input.
static llvm::Expected<bool> run(int argc, char **argv,
                                mlir::DialectRegistry &registry) {
  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv, "fcdp step optimizer\n", registry);
  for (const std::string &path : {input, output})
    if (llvm::Error error = fcdp::checkNoPipe(path))
      return llvm::createStringError("cannot open '" + path +
                                     "': " + toString(std::move(error)));
  if (llvm::Error error = fcdp::checkOutputs({{"-o", output}}, {{"IN", input}}))
    return std::move(error);
  auto optimize = [&, in = llvm::StringRef(input)](llvm::StringRef out) {
    return succeeded(mlir::MlirOptMain(argc, argv, in, out, registry));
  };
  if (fcdp::isStream(output))
    return optimize(output);
  return fcdp::replaceFileIf(output, optimize);
}

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, mlir::LLVM::LLVMDialect,
                  fcdp::FcdpDialect, fcdp::aten::AtenDialect>();
  mlir::registerCSEPass();
  mlir::registerCanonicalizerPass();
  fcdp::registerFcdpPasses();
  fcdp::registerFcdpPipeline();
  fcdp::registerFcdpConversionPasses();
  llvm::Expected<bool> isDone = run(argc, argv, registry);
  if (!isDone)
    llvm::errs() << "error: " << toString(isDone.takeError()) << '\n';
  return isDone && *isDone ? EXIT_SUCCESS : EXIT_FAILURE;
}
