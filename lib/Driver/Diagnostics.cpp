// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Driver/Diagnostics.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fcdp;

static StringRef getName(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Error:
    return "error";
  case DiagnosticSeverity::Warning:
    return "warning";
  case DiagnosticSeverity::Note:
    return "note";
  case DiagnosticSeverity::Remark:
    return "remark";
  }
  llvm_unreachable("unknown severity");
}

static void print(const Diagnostic &diagnostic, llvm::raw_ostream &stream) {
  Location location = diagnostic.getLocation();
  if (auto file = location->findInstanceOf<FileLineColLoc>()) {
    stream << file.getFilename().getValue() << ':';
    if (file.getLine() != 0) // an archive's entries have no lines
      stream << file.getLine() << ':';
    stream << ' ';
  }
  stream << getName(diagnostic.getSeverity()) << ": " << diagnostic;
  if (auto name = location->findInstanceOf<NameLoc>();
      name && !name.getName().empty())
    stream << " (module '" << name.getName().getValue() << "')";
  stream << '\n';
  for (const Diagnostic &note : diagnostic.getNotes())
    print(note, stream);
}

DiagnosticPrinter::DiagnosticPrinter(MLIRContext *context,
                                     llvm::raw_ostream &stream)
    : handler(context, [&stream](Diagnostic &diagnostic) {
        print(diagnostic, stream);
        return success();
      }) {}
