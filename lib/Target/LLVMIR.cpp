// SPDX-License-Identifier: Apache-2.0

#include "LLVMIR.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"

using namespace fcdp;

/// The name in the object's symbol table. It is not a path, so that equal steps
/// give equal bytes.
static constexpr llvm::StringLiteral kSourceName = "fcdp-step";

llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
fcdp::createTargetMachine(bool hasCode) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  std::string message;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return llvm::createStringError("no code generator for '" + triple.str() +
                                   "': " + message);
  // Kernels name the processors of their functions. Data gains nothing from
  // newer instructions.
  llvm::StringRef cpu =
      triple.getArch() == llvm::Triple::x86_64 ? "x86-64-v2" : "generic";
  llvm::TargetOptions options;
  // Kernels have a fused multiply-add where ATen's have one, and nowhere else.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, cpu, /*Features=*/"", options, llvm::Reloc::PIC_,
      /*CM=*/std::nullopt,
      hasCode ? llvm::CodeGenOptLevel::Aggressive
              : llvm::CodeGenOptLevel::None));
  if (!machine)
    return llvm::createStringError("cannot generate code for '" + triple.str() +
                                   "'");
  return std::move(machine);
}

llvm::Expected<std::unique_ptr<llvm::Module>>
fcdp::translateToLLVMIR(mlir::ModuleOp module, llvm::LLVMContext &context,
                        const llvm::TargetMachine &machine) {
  mlir::DialectRegistry registry;
  mlir::registerBuiltinDialectTranslation(registry);
  mlir::registerLLVMDialectTranslation(registry);
  module.getContext()->appendDialectRegistry(registry);
  std::unique_ptr<llvm::Module> result =
      mlir::translateModuleToLLVMIR(module, context, kSourceName);
  if (!result)
    return llvm::createStringError("cannot translate the module to LLVM IR");
  result->setSourceFileName(kSourceName);
  result->setTargetTriple(machine.getTargetTriple());
  result->setDataLayout(machine.createDataLayout());
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (llvm::verifyModule(*result, &stream))
    return llvm::createStringError("the LLVM IR is not valid: " + message);
  return std::move(result);
}

llvm::Error fcdp::emitMachineCode(llvm::Module &module,
                                  llvm::TargetMachine &machine,
                                  llvm::raw_pwrite_stream &stream) {
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, /*DwoOut=*/nullptr,
                                  llvm::CodeGenFileType::ObjectFile))
    return llvm::createStringError("the code generator writes no objects");
  passes.run(module);
  return llvm::Error::success();
}
