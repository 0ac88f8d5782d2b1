// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Conversion/ConstantReader.h"
#include "fcdp/Conversion/Passes.h"
#include "fcdp/Conversion/Plan.h"

#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {
#define GEN_PASS_DEF_CONVERTFCDPTOLLVMPASS
#include "fcdp/Conversion/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class ConvertFcdpToLLVMPass
    : public fcdp::impl::ConvertFcdpToLLVMPassBase<ConvertFcdpToLLVMPass> {
public:
  using ConvertFcdpToLLVMPassBase::ConvertFcdpToLLVMPassBase;
  void runOnOperation() override;
};
} // namespace

/// Erases the contents of the module.
static void clear(ModuleOp module) {
  module.getBody()->clear();
  for (NamedAttribute attr : llvm::to_vector(module->getAttrs()))
    if (attr.getName().getValue().starts_with("fcdp."))
      module->removeAttr(attr.getName());
}

void ConvertFcdpToLLVMPass::runOnOperation() {
  ModuleOp module = getOperation();
  std::vector<std::string> archives = getArchives(module);
  if (!archive.empty())
    archives.front() = archive;
  ConstantReader reader(std::move(archives));
  FailureOr<CompiledPlan> compiled =
      buildPlan(module, getAnalysis<DeviceMemoryAnalysis>(), reader);
  if (failed(compiled))
    return signalPassFailure();
  clear(module);
  if (failed(addPlanGlobals(module, *compiled)))
    signalPassFailure();
}
