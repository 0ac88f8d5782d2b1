// SPDX-License-Identifier: Apache-2.0
//
// Predicts how a training step runs on a described cluster.

#include "Driver.h"

#include "llvm/Support/InitLLVM.h"

#include <cstdlib>

int main(int argc, char **argv) {
  llvm::InitLLVM initLLVM(argc, argv);
  llvm::Expected<fcdp::SimulateOptions> options =
      fcdp::parseCommandLine(argc, argv);
  if (!options) {
    llvm::errs() << "error: " << toString(options.takeError()) << '\n';
    return EXIT_FAILURE;
  }
  return mlir::succeeded(fcdp::simulate(*options, llvm::outs(), llvm::errs()))
             ? EXIT_SUCCESS
             : EXIT_FAILURE;
}
