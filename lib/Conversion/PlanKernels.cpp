// SPDX-License-Identifier: Apache-2.0
//
// Describes kernels in a plan, as text from which their code is generated.

#include "PlanParts.h"

#include "PlanValues.h"
#include "dialects/Fcdp/Kernels.h"
#include "fcdp/Support/Nesting.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace fcdp;

static std::string printKernel(KernelOp kernel) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  kernel.print(stream, OpPrintingFlags().useLocalScope());
  return text;
}

static LogicalResult fillKernel(plan::KernelT &out, KernelOp kernel) {
  out.name = kernel.getShortName().str();
  for (auto map : kernel.getMaps().getAsRange<KernelMapAttr>())
    out.maps.push_back(findByName<plan::KernelMap>(
        stringifyKernelMap(map.getValue()), plan::EnumNamesKernelMap()));
  auto addTypes = [&](std::vector<plan::DType> &types,
                      TypeRange elements) -> LogicalResult {
    for (Type element : elements)
      if (failed(setDType(types.emplace_back(), element, kernel)))
        return failure();
    return success();
  };
  out.text = printKernel(kernel);
  return success(
      succeeded(addTypes(out.operands,
                         kernel.getBody().front().getArgumentTypes())) &&
      succeeded(addTypes(out.results, kernel.getResultElements())));
}

LogicalResult fcdp::fillKernels(plan::PlanT &plan, ModuleOp module) {
  if (failed(verifyKernelCalls(module)))
    return failure();
  for (auto kernel : module.getOps<KernelOp>())
    if (failed(fillKernel(append(plan.kernels), kernel)))
      return failure();
  return success();
}

/// Returns the kernel that a plan describes, or null with an error if the text
/// is not that of the kernel that the other fields state.
static KernelOp parseKernel(const plan::KernelT &described, Block *block,
                            MLIRContext *context) {
  auto fail = [&]() -> KernelOp {
    emitError(UnknownLoc::get(context), "the plan's kernel '")
        << described.name
        << "': expected 'text' to be one operation fcdp.kernel of this name, "
           "these maps and these types";
    return {};
  };
  if (findTooDeep(described.text))
    return fail();
  context->loadDialect<FcdpDialect>();
  OwningOpRef<ModuleOp> parsed =
      parseSourceString<ModuleOp>(described.text, context);
  if (!parsed || !llvm::hasSingleElement(*parsed->getBody()))
    return fail();
  auto kernel = dyn_cast<KernelOp>(parsed->getBody()->front());
  plan::KernelT found;
  if (!kernel || failed(fillKernel(found, kernel)) ||
      found.name != described.name || found.maps != described.maps ||
      found.operands != described.operands ||
      found.results != described.results)
    return fail();
  kernel->moveBefore(block, block->end());
  return kernel;
}

LogicalResult fcdp::addKernels(ModuleOp module, const plan::PlanT &plan) {
  for (const auto &kernel : plan.kernels)
    if (!parseKernel(*kernel, module.getBody(), module.getContext()))
      return failure();
  return success();
}
