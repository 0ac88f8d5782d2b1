// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Import/Pt2.h"

#include "Archive.h"
#include "Declarations.h"
#include "Extras.h"
#include "IndexLimits.h"
#include "Program.h"
#include "Step.h"
#include "Tensors.h"
#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

using namespace llvm;
using namespace mlir;
using namespace fcdp;
using namespace fcdp::pt2;

static Error checkPickles(const Archive &archive, const Program &program) {
  Expected<Payloads> payloads = readPayloads(archive);
  if (!payloads)
    return payloads.takeError();
  for (const InputSpec &input : program.inputs) {
    auto found = payloads->find(input.name);
    if (input.kind != InputSpec::Kind::UserInput && found != payloads->end() &&
        found->second.pickled)
      return makeError("the value of '" + input.name +
                       "' is pickled: tensor subclasses are not supported");
  }
  return Error::success();
}

/// Fills `module` from the archive.
static Error import(const Archive &archive, ModuleOp module) {
  Expected<std::string> name = archive.findModel();
  if (!name)
    return name.takeError();
  Expected<std::string> text = archive.read(*name);
  if (!text)
    return text.takeError();
  BumpPtrAllocator arena;
  Expected<Json> json = parseJson(*text, arena);
  if (!json)
    return makeError("in '" + *name + "': " + toString(json.takeError()));
  Expected<Program> program = readProgram(*json);
  if (!program)
    return program.takeError();
  if (Error error = checkPickles(archive, *program))
    return error;
  if (program->device != Target::cpu)
    setTarget(module, program->device);

  Extras extras;
  constexpr StringLiteral kExtras = "extra/fcdp.json";
  if (archive.contains(kExtras)) {
    Expected<std::string> extrasText = archive.read(kExtras);
    if (!extrasText)
      return extrasText.takeError();
    Expected<Extras> read = readExtras(*extrasText);
    if (!read)
      return read.takeError();
    extras = std::move(*read);
  }

  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Expected<Declarations> declarations =
      declare(*program, extras, module.getLoc(), builder);
  if (!declarations)
    return declarations.takeError();
  if (Error error = emitStep(*program, *declarations, module.getLoc(), builder))
    return error;
  annotateIndexLimits(module);
  return Error::success();
}

static OwningOpRef<ModuleOp>
importArchive(Expected<Archive> archive, StringRef path, MLIRContext *context) {
  // Entries of an archive have no line numbers.
  Location location = FileLineColLoc::get(context, path, 0, 0);
  auto fail = [&](Error error) -> OwningOpRef<ModuleOp> {
    emitError(location) << toString(std::move(error));
    return {};
  };
  if (!archive)
    return fail(archive.takeError());
  context->loadDialect<FcdpDialect, aten::AtenDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  setPhase(*module, Phase::imported);
  setArchive(*module, path);
  if (Error error = import(*archive, *module))
    return fail(std::move(error));
  if (failed(verify(*module)))
    return {};
  return module;
}

OwningOpRef<ModuleOp> fcdp::importPt2(StringRef path, MLIRContext *context) {
  return importArchive(Archive::openFile(path), path, context);
}

OwningOpRef<ModuleOp> fcdp::importPt2(MemoryBufferRef archive,
                                      MLIRContext *context) {
  return importArchive(Archive::openBuffer(archive),
                       archive.getBufferIdentifier(), context);
}
