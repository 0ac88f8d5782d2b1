// SPDX-License-Identifier: Apache-2.0
//
// Runs passes on a step in any phase.

#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Conversion/Passes.h"
#include "fcdp/Support/EscapedStderr.h"
#include "fcdp/Support/InputFile.h"
#include "fcdp/Support/Nesting.h"
#include "fcdp/Support/OutputFile.h"
#include "fcdp/Support/Printable.h"
#include "fcdp/Support/ToolMain.h"
#include "fcdp/Transforms/Passes.h"
#include "fcdp/Transforms/Pipeline.h"

#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

static llvm::Error cannotOpen(llvm::StringRef path, llvm::Error reason) {
  return llvm::createStringError("cannot open '" + path +
                                 "': " + toString(std::move(reason)));
}

/// Reads the input, within limits that MLIR's own function does not have.
static llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
read(llvm::StringRef path) {
  auto text = fcdp::readInputFileOrStdin(path);
  if (!text)
    return cannotOpen(path, text.takeError());
  if (mlir::isBytecode((*text)->getMemBufferRef()))
    return text;
  if (auto problem = fcdp::findTooDeep((*text)->getBuffer())) {
    llvm::errs() << (*text)->getBufferIdentifier() << ':' << problem->line
                 << ": ";
    return llvm::createStringError(problem->message);
  }
  return text;
}

/// Runs the tool. MLIR's own function would empty the output before it reads
/// the input.
static llvm::Expected<bool> run(int argc, char **argv,
                                mlir::DialectRegistry &registry) {
  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv, "fcdp step optimizer\n", registry);
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return succeeded(mlir::MlirOptMain(argc, argv, input, output, registry));
  if (llvm::Error error = fcdp::checkNoPipe(output))
    return cannotOpen(output, std::move(error));
  if (llvm::Error error = fcdp::checkOutputs({{"-o", output}}, {{"IN", input}}))
    return std::move(error);
  auto text = read(input);
  if (!text)
    return text.takeError();
  auto optimize = [&](llvm::raw_ostream &stream) {
    return succeeded(
        mlir::MlirOptMain(stream, std::move(*text), registry, config));
  };
  bool isDone = false;
  if (fcdp::isStream(output)) {
    if (llvm::Error error = fcdp::printToFile(
            output, [&](auto &stream) { isDone = optimize(stream); }))
      return std::move(error);
    return isDone;
  }
  return fcdp::replaceFileIf(output, [&](llvm::StringRef temporary) {
    llvm::Error error = fcdp::writeFile(temporary, [&](auto &stream) {
      isDone = optimize(stream);
      return llvm::Error::success();
    });
    if (!error)
      return isDone;
    llvm::errs() << "error: " << fcdp::printable(toString(std::move(error)))
                 << '\n';
    return false;
  });
}

static int optimize(int argc, char **argv) {
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
    llvm::errs() << "error: " << fcdp::printable(toString(isDone.takeError()))
                 << '\n';
  return isDone && *isDone ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
  fcdp::escapeStderr();
  return fcdp::runToolMain([&] { return optimize(argc, argv); });
}
