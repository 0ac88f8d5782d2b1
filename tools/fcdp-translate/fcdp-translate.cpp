// SPDX-License-Identifier: Apache-2.0
//
// Turns training-step archives into MLIR.

#include "TestReadPt2.h"
#include "fcdp/Import/Pt2.h"

#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"

#include <cstdlib>

int main(int argc, char **argv) {
  fcdp::registerImportPt2Translation();
  fcdp::registerTestReadPt2Translation();
  return mlir::failed(mlir::mlirTranslateMain(
             argc, argv,
             "fcdp importer\n\n"
             "Example: fcdp-translate --import-pt2 step.pt2 -o step.mlir"))
             ? EXIT_FAILURE
             : EXIT_SUCCESS;
}
