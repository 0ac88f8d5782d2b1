// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Target/ObjectEmission.h"

#include "Kernels.h"
#include "LLVMIR.h"
#include "Linker.h"
#include "ObjectSeal.h"
#include "fcdp/Support/OutputFile.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace fcdp;

OutputKind fcdp::getOutputKind(llvm::StringRef path) {
  if (path.ends_with(".ll"))
    return OutputKind::LLVMIR;
  return path.ends_with(".o") ? OutputKind::Object : OutputKind::SharedObject;
}

/// Appends the checksum. Without it the runtime does not load an object.
static llvm::Error seal(llvm::StringRef path) {
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false,
                                          /*IsVolatile=*/true);
  if (!file)
    return llvm::createStringError("cannot read '" + path +
                                   "': " + file.getError().message());
  std::error_code code;
  llvm::raw_fd_ostream stream(path, code, llvm::sys::fs::CD_OpenExisting,
                              llvm::sys::fs::FA_Write,
                              llvm::sys::fs::OF_Append);
  if (!code) {
    stream << makeSeal((*file)->getBuffer());
    stream.close();
    code = stream.error();
    stream.clear_error();
  }
  if (code)
    return llvm::createStringError("cannot write '" + path +
                                   "': " + code.message());
  return llvm::Error::success();
}

/// Writes the machine code to a temporary object, then links and seals it.
static llvm::Error linkStep(llvm::Module &module, llvm::TargetMachine &machine,
                            llvm::StringRef output) {
  llvm::SmallString<128> object;
  if (std::error_code error =
          llvm::sys::fs::createTemporaryFile("fcdp-step", "o", object))
    return llvm::createStringError(error, "cannot create a temporary file: " +
                                              error.message());
  llvm::FileRemover removeObject(object);
  auto emit = [&](llvm::raw_pwrite_stream &stream) {
    return emitMachineCode(module, machine, stream);
  };
  if (llvm::Error error = writeFile(object, emit))
    return error;
  if (llvm::Error error = linkSharedObject(object, output))
    return error;
  return seal(output);
}

static llvm::Error write(llvm::Module &module, llvm::TargetMachine &machine,
                         llvm::StringRef output, OutputKind kind) {
  if (kind == OutputKind::SharedObject)
    return linkStep(module, machine, output);
  return writeFile(output, [&](llvm::raw_pwrite_stream &stream) -> llvm::Error {
    if (kind == OutputKind::Object)
      return emitMachineCode(module, machine, stream);
    module.print(stream, /*AAW=*/nullptr);
    return llvm::Error::success();
  });
}

llvm::Error fcdp::emitObject(mlir::ModuleOp module, llvm::StringRef path,
                             OutputKind kind) {
  // Kernels are no operations of the LLVM dialect.
  mlir::OwningOpRef<mlir::ModuleOp> data = module.clone();
  for (KernelOp kernel : llvm::make_early_inc_range(data->getOps<KernelOp>()))
    kernel.erase();
  auto kernels = llvm::to_vector(module.getOps<KernelOp>());
  auto machine = createTargetMachine(/*hasCode=*/!kernels.empty());
  if (!machine)
    return machine.takeError();
  llvm::LLVMContext context;
  auto translated = translateToLLVMIR(*data, context, **machine);
  if (!translated)
    return translated.takeError();
  if (llvm::Error error = addKernelCode(**translated, kernels, **machine))
    return error;
  return replaceFile(path, [&](llvm::StringRef temporary) {
    return write(**translated, **machine, temporary, kind);
  });
}
