// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Driver/Diagnostics.h"

#include "fcdp/Support/Printable.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Remarks.h"
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

static void printPlace(Location location, llvm::raw_ostream &stream) {
  if (auto file = location->findInstanceOf<FileLineColLoc>()) {
    stream << printable(file.getFilename().getValue()) << ':';
    if (file.getLine() != 0) // an archive's entries have no lines
      stream << file.getLine() << ':';
    stream << ' ';
  }
}

static void print(const Diagnostic &diagnostic, llvm::raw_ostream &stream) {
  Location location = diagnostic.getLocation();
  printPlace(location, stream);
  stream << getName(diagnostic.getSeverity()) << ": "
         << printable(diagnostic.str());
  if (auto name = location->findInstanceOf<NameLoc>();
      name && !name.getName().empty())
    stream << " (module '" << printable(name.getName().getValue()) << "')";
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

namespace {
/// MLIR's own printing would add the remark's kind and category to each line.
class RemarkPrinter : public remark::detail::MLIRRemarkStreamerBase {
public:
  explicit RemarkPrinter(llvm::raw_ostream &stream) : stream(stream) {}

  void streamOptimizationRemark(const remark::detail::Remark &remark) override {
    printPlace(remark.getLocation(), stream);
    stream << "remark: ";
    for (const remark::detail::Remark::Arg &part : remark.getArgs())
      stream << printable(part.val);
    stream << '\n';
  }

private:
  llvm::raw_ostream &stream;
};
} // namespace

LogicalResult fcdp::printRemarks(MLIRContext &context,
                                 llvm::raw_ostream &stream) {
  remark::RemarkCategories categories;
  categories.passed = categories.missed = "fcdp-.*";
  return remark::enableOptimizationRemarks(
      context, std::make_unique<RemarkPrinter>(stream),
      std::make_unique<remark::RemarkEmittingPolicyAll>(), categories);
}
