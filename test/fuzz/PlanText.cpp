// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the compiler's readers of plans:
//   build-asan/bin/fcdp-fuzz-plan-text NEW test/fuzz/corpus/plan-text \
//     test/fuzz/corpus/plan
//
// Inputs are plans as text, and in their FlatBuffers form. Checked, besides the
// sanitizers: an error names the input, and the text of a plan that is taken
// reads as the same plan.

#include "fcdp/Conversion/Plan.h"

#include <cstdlib>

using namespace fcdp;

[[noreturn]] static void die(const llvm::Twine &what) {
  llvm::errs() << what << '\n';
  std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef input(reinterpret_cast<const char *>(data), size);
  auto plan = input.starts_with("{") ? parsePlan(input, "input")
                                     : unpackPlan(input, "input");
  if (!plan) {
    std::string error = toString(plan.takeError());
    if (!llvm::StringRef(error).starts_with("'input': "))
      die("the error does not name the input: " + error);
    return 0;
  }
  std::string text = printPlan(**plan);
  auto parsed = parsePlan(text, "text");
  if (!parsed)
    die("a plan's text is refused: " + toString(parsed.takeError()) + "\n" +
        text);
  if (printPlan(**parsed) != text)
    die("a plan's text reads as another plan:\n" + text);
  return 0;
}
