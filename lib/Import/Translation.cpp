// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Import/Pt2.h"

#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

void fcdp::registerImportPt2Translation() {
  // TranslateToMLIRRegistration would print without locations, which contain
  // the module paths that later phases need.
  static TranslateRegistration registration(
      "import-pt2", "import a training-step archive (.pt2)",
      [](const std::shared_ptr<llvm::SourceMgr> &sources,
         llvm::raw_ostream &output, MLIRContext *context) -> LogicalResult {
        OwningOpRef<ModuleOp> module =
            importPt2(sources->getMemoryBuffer(sources->getMainFileID())
                          ->getMemBufferRef(),
                      context);
        if (!module)
          return failure();
        module->print(output, OpPrintingFlags().enableDebugInfo());
        output << '\n';
        return success();
      });
}
