// SPDX-License-Identifier: Apache-2.0
//
// Turns training-step archives into MLIR:
//   fcdp-translate --import-pt2 step.pt2 -o step.mlir

#include "fcdp/Import/Pt2.h"

#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"

#include <cstdlib>

int main(int argc, char **argv) {
  fcdp::registerImportPt2Translation();
  return mlir::failed(mlir::mlirTranslateMain(argc, argv, "fcdp importer"))
             ? EXIT_FAILURE
             : EXIT_SUCCESS;
}
