// SPDX-License-Identifier: Apache-2.0
//
// Compiles a training step to a shared object.

#include "Driver.h"

#include "fcdp/Support/Printable.h"
#include "fcdp/Support/ToolMain.h"
#include "llvm/Support/InitLLVM.h"

#include <cstdlib>

static int run(int argc, char **argv) {
  llvm::Expected<fcdp::CompileOptions> options =
      fcdp::parseCommandLine(argc, argv);
  if (!options) {
    llvm::errs() << "error: " << fcdp::printable(toString(options.takeError()))
                 << '\n';
    return EXIT_FAILURE;
  }
  return mlir::succeeded(fcdp::compile(*options, llvm::outs(), llvm::errs()))
             ? EXIT_SUCCESS
             : EXIT_FAILURE;
}

int main(int argc, char **argv) {
  llvm::InitLLVM initLLVM(argc, argv);
  return fcdp::runToolMain([&] { return run(argc, argv); });
}
