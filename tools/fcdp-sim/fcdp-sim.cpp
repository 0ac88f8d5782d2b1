// SPDX-License-Identifier: Apache-2.0
//
// Predicts how a training step runs on a described cluster.

#include "Driver.h"

#include "fcdp/Support/Printable.h"
#include "fcdp/Support/ToolMain.h"
#include "llvm/Support/InitLLVM.h"

#include <cstdlib>

static int run(int argc, char **argv) {
  llvm::Expected<fcdp::SimulateOptions> options =
      fcdp::parseCommandLine(argc, argv);
  if (!options) {
    llvm::errs() << "error: " << fcdp::printable(toString(options.takeError()))
                 << '\n';
    return EXIT_FAILURE;
  }
  return mlir::succeeded(fcdp::simulate(*options, llvm::outs(), llvm::errs()))
             ? EXIT_SUCCESS
             : EXIT_FAILURE;
}

int main(int argc, char **argv) {
  llvm::InitLLVM initLLVM(argc, argv);
  return fcdp::runToolMain([&] { return run(argc, argv); });
}
