// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Support/ToolMain.h"

#include "llvm/Support/raw_ostream.h"

#include <csignal>
#include <cstdlib>

using namespace llvm;

int fcdp::runToolMain(function_ref<int()> tool) {
  std::signal(SIGXFSZ, SIG_IGN);
  const int code = tool();
  outs().flush();
  if (!outs().has_error())
    return code;
  errs() << "error: cannot write to the standard output: "
         << outs().error().message() << '\n';
  outs().clear_error();
  return EXIT_FAILURE;
}
