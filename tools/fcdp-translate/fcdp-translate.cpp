// SPDX-License-Identifier: Apache-2.0
//
// Translates training-step archives to MLIR.

#include "TestReadPt2.h"
#include "fcdp/Import/Pt2.h"
#include "fcdp/Support/EscapedStderr.h"
#include "fcdp/Support/InputFile.h"
#include "fcdp/Support/OutputFile.h"
#include "fcdp/Support/Printable.h"
#include "fcdp/Support/ToolMain.h"

#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

using llvm::StringRef;

namespace {
/// The command line. MLIR's own function finds the name of the output in it,
/// and empties that file before it reads the input.
struct Arguments {
  Arguments(int argc, char **argv);

  std::vector<std::string> all;
  /// Arguments that are no options.
  std::vector<StringRef> inputs;
  /// The argument that names the output, and the text before the name; none for
  /// the standard output.
  std::optional<size_t> output;
  std::string prefix;
};
} // namespace

Arguments::Arguments(int argc, char **argv) : all(argv, argv + argc) {
  for (size_t i = 1; i < all.size(); ++i) {
    StringRef text = all[i], option = text;
    option.consume_front("-");
    option.consume_front("-");
    if (!text.starts_with("-") || text == "-") {
      inputs.push_back(text);
    } else if (option == "o" && i + 1 < all.size()) {
      output = ++i;
      prefix.clear();
    } else if (option.starts_with("o=")) {
      output = i;
      prefix = text.take_front(text.find('=') + 1).str();
    }
  }
}

static bool translate(std::vector<std::string> arguments) {
  std::vector<char *> pointers;
  for (std::string &argument : arguments)
    pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  return succeeded(mlir::mlirTranslateMain(
      int(arguments.size()), pointers.data(),
      "fcdp importer\n\n"
      "Example: fcdp-translate --import-pt2 step.pt2 -o step.mlir"));
}

static llvm::Expected<bool> run(int argc, char **argv) {
  Arguments arguments(argc, argv);
  // An option such as --help reads nothing.
  if (arguments.inputs.empty() &&
      llvm::any_of(arguments.all, [](StringRef argument) {
        return argument.ends_with("-pt2");
      }))
    arguments.inputs.push_back("-");
  std::string output = "-";
  if (arguments.output)
    output = arguments.all[*arguments.output].substr(arguments.prefix.size());
  auto cannotOpen = [](StringRef path, llvm::Error reason) {
    return llvm::createStringError("cannot open '" + path +
                                   "': " + toString(std::move(reason)));
  };
  if (llvm::Error error = fcdp::checkNoPipe(output))
    return cannotOpen(output, std::move(error));
  for (StringRef input : arguments.inputs) {
    if (llvm::Error error = fcdp::checkInput(input))
      return cannotOpen(input, std::move(error));
    // MLIR's own function reads a stream without end until no memory is left.
    if (llvm::Error error = fcdp::bufferStream(input))
      return cannotOpen(input, std::move(error));
    if (llvm::Error error =
            fcdp::checkOutputs({{"-o", output}}, {{"IN", input}}))
      return std::move(error);
  }
  if (fcdp::isStream(output))
    return translate(arguments.all);
  return fcdp::replaceFileIf(output, [&](StringRef temporary) {
    std::vector<std::string> replaced = arguments.all;
    replaced[*arguments.output] = arguments.prefix + temporary.str();
    return translate(std::move(replaced));
  });
}

static int translate(int argc, char **argv) {
  fcdp::registerImportPt2Translation();
  fcdp::registerTestReadPt2Translation();
  llvm::Expected<bool> isDone = run(argc, argv);
  if (!isDone)
    llvm::errs() << "error: " << fcdp::printable(toString(isDone.takeError()))
                 << '\n';
  return isDone && *isDone ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
  fcdp::escapeStderr();
  return fcdp::runToolMain([&] { return translate(argc, argv); });
}
